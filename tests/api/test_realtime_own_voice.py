"""A realtime agent whose model says its answers itself, asked by OpenAI's SDK."""

import asyncio
import base64
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import numpy as np
import openai
import pytest

from antiphon.pipeline.chat import service
from tests.own_voices import VOICES, start_own_voice
from tests.servers import DEADLINE_S, RunningServer, wait_until
from tests.sockets import connected, messages

RATE_HZ = 24_000
NUM_CODES = 152  # of a long answer with Chelsie's voice
HELLO = "How are you?"
LIKELIEST = {"temperature": 0, "max_output_tokens": 6}


@pytest.fixture(autouse=True)
def short_speech(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have six tokens said with a few codes."""
    _draw(3, monkeypatch)


@pytest.fixture
def long_speech(short_speech: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have six tokens said with `NUM_CODES`, which random weights seldom do."""
    _draw(15, monkeypatch)


def _draw(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "new_seed", lambda: seed)


def connect(server: RunningServer) -> Any:
    """Return a connection of the SDK's, whose events are of too many types to be told apart."""
    sdk = openai.AsyncOpenAI(base_url=f"{server.base_url}/v1", api_key="any", max_retries=0)
    return sdk.realtime.connect(model="omni")


def run(talk: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(DEADLINE_S):
            await talk

    asyncio.run(bounded())


async def say(connection: Any, text: str = HELLO) -> None:
    content = [{"type": "input_text", "text": text}]
    item = {"type": "message", "role": "user", "content": content}
    await connection.conversation.item.create(item=item)


async def answer(connection: Any, **response: Any) -> tuple[Any, bytes]:
    await connection.response.create(response={**LIKELIEST, **response})
    return await heard(connection)


async def heard(connection: Any) -> tuple[Any, bytes]:
    pieces: list[bytes] = []
    async for event in connection:
        assert event.type != "error", event
        if event.type == "response.output_audio.delta":
            pieces.append(base64.b64decode(event.delta))
        elif event.type == "response.done":
            return event.response, b"".join(pieces)
    raise AssertionError("the connection was closed")


def voice_of(name: str | None, **output: Any) -> dict[str, Any]:
    audio = {"output": {**({"voice": name} if name else {}), **output}}
    return {"output_modalities": ["audio"], "audio": audio}


def test_two_sessions_speak_with_two_voices_of_the_model(omni_server: RunningServer) -> None:
    async def talk(voice: str | None, said: dict[str | None, bytes]) -> None:
        async with connect(omni_server) as connection:
            created = await connection.recv()
            assert created.session.output_modalities == ["audio"], "without being told to"
            assert created.session.instructions.startswith("You are "), "as it was trained to"
            await connection.session.update(session={"type": "realtime", **voice_of(voice)})
            assert (await connection.recv()).type == "session.updated"
            await say(connection)
            done, pcm = await answer(connection)
            assert done.status == "incomplete", done.status_details
            assert done.usage.output_token_details.audio_tokens == len(pcm) // 2 // 30 > 0
            assert done.output[0].content[0].transcript
            said[voice] = pcm

    async def both() -> None:
        said: dict[str | None, bytes] = {}
        await asyncio.gather(*(talk(voice, said) for voice in VOICES))
        assert said["Chelsie"] != said["Ethan"]

    run(both())
    wait_until(lambda: omni_server.num_open == 0)


def test_the_flat_voice_its_rate_and_its_speed(omni_server: RunningServer) -> None:
    with connected(omni_server, "/v1/realtime") as talk:
        talk.receive()
        talk.send("session.update", session={"voice": "nobody"})
        (error,) = messages([talk.receive()], "error")
        assert error["error"]["param"] == "voice"
        assert all(each in error["error"]["message"] for each in VOICES)
        talk.send("session.update", session={"voice": "ethan"})
        assert messages([talk.receive()], "session.updated")
        lengths, num_codes = {}, {}
        for speed in (1.0, 2.0):
            output = {"format": "g711_ulaw", "speed": speed}
            talk.send(
                "response.create",
                response={
                    "conversation": "none",
                    "input": [{"role": "user", "content": [{"type": "text", "text": HELLO}]}],
                    **LIKELIEST,
                    "audio": {"output": output},
                },
            )
            found = messages(talk.until("response.done"))
            pieces = messages(list(found), "response.output_audio.delta")
            lengths[speed] = sum(len(base64.b64decode(each["delta"])) for each in pieces)
            usage = found[-1]["response"]["usage"]
            num_codes[speed] = usage["output_token_details"]["audio_tokens"]
        for speed, length in lengths.items():
            expected = num_codes[speed] * 30 / RATE_HZ * 8000 / speed
            assert length == pytest.approx(expected, abs=32)


@pytest.mark.usefixtures("long_speech")
def test_barge_in_stops_writing_and_speaking_and_keeps_what_was_heard(
    omni_server: RunningServer,
) -> None:
    async def talk() -> None:
        async with connect(omni_server) as connection:
            await connection.recv()
            await say(connection)
            await connection.response.create(response=LIKELIEST)
            pieces: list[bytes] = []
            async for event in connection:
                if event.type == "response.output_audio.delta":
                    pieces.append(base64.b64decode(event.delta))
                    break
            await connection.response.cancel()
            done, rest = await heard(connection)
            assert omni_server.num_open == 0, "both have stopped by then"
            assert done.status == "cancelled"
            item = done.output[0]
            heard_ms = len(b"".join([*pieces, rest])) * 1000 // 2 // RATE_HZ
            assert 0 < heard_ms < NUM_CODES * 30 * 1000 // RATE_HZ
            await connection.conversation.item.truncate(
                item_id=item.id, content_index=0, audio_end_ms=heard_ms
            )
            assert (await connection.recv()).type == "conversation.item.truncated"
            await connection.conversation.item.retrieve(item_id=item.id)
            left = (await connection.recv()).item.content[0].transcript
            whole = item.content[0].transcript
            assert whole.startswith(left)
            assert len(left) < len(whole)
            done, pcm = await answer(connection)
            assert done.output[0].status == "incomplete"
            assert np.frombuffer(pcm, "<i2").any()

    run(talk())


@pytest.mark.usefixtures("long_speech")
def test_leaving_while_it_speaks_frees_both_models(omni_server: RunningServer) -> None:
    async def talk() -> None:
        async with connect(omni_server) as connection:
            await connection.recv()
            await say(connection)
            await connection.response.create(response=LIKELIEST)
            async for event in connection:
                if event.type == "response.output_audio.delta":
                    return

    run(talk())
    wait_until(lambda: omni_server.num_open == 0)


@pytest.mark.slow(reason="starts a server of two models")
def test_a_model_that_speaks_can_be_named_beside_its_own_voice(own_voice_checkpoint: Path) -> None:
    async def talk(server: RunningServer) -> None:
        async with connect(server) as connection:
            await connection.recv()
            await say(connection)
            done, pcm = await answer(connection, **voice_of("alto", model="toy"))
            said = done.output[0].content[0].transcript
            assert done.usage.output_token_details.audio_tokens > 0
            own, own_pcm = await answer(connection, **voice_of("Ethan", model="omni"))
            assert said
            assert own.output[0].content[0].transcript
            assert pcm != own_pcm
            await connection.response.create(response=voice_of("alto"))
            error = (await connection.recv()).error
            assert error.param == "voice", "of its own voices there is none of this name"

    with start_own_voice(own_voice_checkpoint, models={"more": ["toy"]}) as server:
        run(talk(server))
