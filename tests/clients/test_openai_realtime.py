"""OpenAI's own SDK talks with an agent: our chat and our voice, by its realtime client."""

import asyncio
import base64
from difflib import SequenceMatcher

import openai
import pytest
from openai.resources.realtime.realtime import AsyncRealtimeConnection

from tests.servers import RunningServer, wait_until


async def ask(connection: AsyncRealtimeConnection, text: str) -> None:
    await connection.conversation.item.create(
        item={
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": text}],
        }
    )
    await connection.response.create()


async def heard(connection: AsyncRealtimeConnection) -> tuple[str, bytes, str]:
    """Return the transcript and the audio of the next response, and its status."""
    transcript, audio = "", b""
    async for event in connection:
        if event.type == "response.output_audio_transcript.delta":
            transcript += event.delta
        elif event.type == "response.output_audio.delta":
            audio += base64.b64decode(event.delta)
        elif event.type == "response.done":
            return transcript, audio, event.response.status or ""
        else:
            assert event.type != "error", event
    raise AssertionError("the server has left")


async def test_it_answers_and_can_be_interrupted(server: RunningServer) -> None:
    client = openai.AsyncOpenAI(base_url=f"{server.base_url}/v1", api_key="any")
    async with (
        client,
        client.realtime.connect(model="toy") as connection,
    ):
        await connection.session.update(
            session={
                "type": "realtime",
                "output_modalities": ["audio"],
                "audio": {"output": {"voice": "alloy"}},
            }
        )
        await ask(connection, "Hello.")
        transcript, audio, status = await heard(connection)
        assert status == "completed"
        # The protocol has no temperature any more, and a toy that is warm mistypes.
        assert SequenceMatcher(None, transcript, "You said: Hello.").ratio() > 0.7
        assert len(audio) > 24000
        await ask(connection, "This is long. " * 100)
        async for event in connection:
            if event.type == "response.output_audio.delta":
                item_id, first_bytes = event.item_id, len(base64.b64decode(event.delta))
                break
        await connection.response.cancel()
        assert (await heard(connection))[2] == "cancelled"
        await connection.conversation.item.truncate(
            item_id=item_id, content_index=0, audio_end_ms=first_bytes // 48
        )
        await connection.conversation.item.retrieve(item_id=item_id)
        async for event in connection:
            assert event.type != "error", event
            if event.type == "conversation.item.retrieved":
                assert event.item.type == "message"
                assert event.item.role == "assistant"
                said = event.item.content[0].transcript or ""
                assert len(said) < 100, "of 1,400 characters"
                break
    wait_until(lambda: server.num_open == 0)


async def test_what_is_wrong_is_an_error_of_the_protocol(server: RunningServer) -> None:
    client = openai.AsyncOpenAI(base_url=f"{server.base_url}/v1", api_key="any")
    async with (
        client,
        client.realtime.connect(model="toy") as connection,
    ):
        await connection.conversation.item.delete(item_id="nothing", event_id="mine")
        async for event in connection:
            if event.type == "error":
                assert event.error.event_id == "mine"
                assert event.error.param == "item_id"
                break


async def test_a_model_that_only_speaks_still_reads_word_for_word(server: RunningServer) -> None:
    client = openai.AsyncOpenAI(base_url=f"{server.base_url}/v1", api_key="any")
    async with (
        client,
        client.realtime.connect(model="tts-1") as connection,
    ):
        await ask(connection, "Word for word.")
        assert (await heard(connection))[0] == "Word for word."


def test_an_unknown_model_is_refused(server: RunningServer) -> None:
    async def main() -> None:
        client = openai.AsyncOpenAI(base_url=f"{server.base_url}/v1", api_key="any", max_retries=0)
        async with client, client.realtime.connect(model="unheard"):
            pass

    with pytest.raises(Exception, match="404"):
        asyncio.run(main())
