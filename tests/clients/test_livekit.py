"""LiveKit's plugins for OpenAI, Deepgram and ElevenLabs speak with the server, given its URL."""

import asyncio
from collections.abc import Callable
from difflib import SequenceMatcher
from itertools import product
from typing import Any

import httpx
import pytest

from tests.decoding import decoded
from tests.lazily import Lazily
from tests.loops import on_a_loop
from tests.servers import RunningServer, wait_until

openai = Lazily("livekit.plugins.openai", "needs the extra 'clients'")

pytestmark = [
    pytest.mark.clients,
    # The plugin and what it imports warn of their own affairs.
    pytest.mark.filterwarnings("ignore"),
]

TEXT = "Hello there. This is a test of another client."


@on_a_loop
async def duration_s(server: RunningServer, model: str, format: str) -> float:
    """Return how much audio the plugin's frames hold."""
    tts = openai.TTS(
        model=model,
        voice="alloy",
        base_url=f"{server.base_url}/v1",
        api_key="none",
        response_format=format,
    )
    try:
        async with tts.synthesize(TEXT) as stream:
            return float(sum([event.frame.duration async for event in stream]))
    finally:
        await tts.aclose()


def expected_s(server: RunningServer) -> float:
    body = {"input": TEXT, "response_format": "wav"}
    response = httpx.post(f"{server.base_url}/v1/audio/speech", json=body, timeout=30)
    samples, rate_hz = decoded(response.content, "wav", 0)
    return len(samples) / rate_hz


# Its decoder drops the end of a FLAC stream, so that format tells nothing about us.
@pytest.mark.parametrize(
    ("model", "format"),
    [
        ("tts-1", "mp3"),
        ("toy", "pcm"),
        *(
            pytest.param(model, format, marks=pytest.mark.slow)  # more of the same
            for model, format in product(("toy", "tts-1"), ("mp3", "opus", "aac", "wav", "pcm"))
            if (model, format) not in (("tts-1", "mp3"), ("toy", "pcm"))
        ),
    ],
)
def test_it_hears_all_of_it(server: RunningServer, model: str, format: str) -> None:
    heard_s = duration_s(server, model, format)
    assert heard_s == pytest.approx(expected_s(server), abs=0.15)
    assert server.num_open == 0


def test_it_tells_a_wrong_voice_from_a_broken_server(server: RunningServer) -> None:
    from livekit.agents import APIStatusError
    from livekit.agents.types import APIConnectOptions

    async def main() -> None:
        tts = openai.TTS(voice="nobody", base_url=f"{server.base_url}/v1", api_key="none")
        try:
            once = APIConnectOptions(max_retry=0)
            async with tts.synthesize(TEXT, conn_options=once) as stream:
                async for _ in stream:
                    pass
        finally:
            await tts.aclose()

    with pytest.raises(APIStatusError) as caught:
        asyncio.run(main())
    assert caught.value.status_code == 404


agents = Lazily("livekit.agents", "needs the extra 'clients'")

ASKED = "Hello there, my friend."
WANTED = f"You said: {ASKED}"
LONG = "This is long. " * 60


def services(url: str) -> Any:
    llm = openai.LLM(model="toy", base_url=url, api_key="none", temperature=0)
    tts = openai.TTS(model="toy", voice="alloy", base_url=url, api_key="none")
    return agents.AgentSession(llm=llm, tts=tts)


def realtime(url: str) -> Any:
    model = openai.realtime.RealtimeModel(
        model="toy",
        base_url=url,
        api_key="none",
        voice="alloy",
        turn_detection=None,
        input_audio_transcription=None,
    )
    return agents.AgentSession(llm=model)


def ear_of(audio_output: Any) -> Any:
    """Return something that hears: an output of the framework that plays at once."""

    class Ear(audio_output.AudioOutput):  # type: ignore[misc]
        def __init__(self) -> None:
            capabilities = audio_output.AudioOutputCapabilities(pause=False)
            super().__init__(label="ear", capabilities=capabilities, sample_rate=24000)
            self.heard_s = self.segment_s = 0.0
            self.has_heard = asyncio.Event()

        async def capture_frame(self, frame: Any) -> None:
            await super().capture_frame(frame)
            self.heard_s += frame.duration
            self.segment_s += frame.duration
            self.has_heard.set()

        def flush(self) -> None:
            super().flush()
            self.on_playback_finished(playback_position=self.segment_s, interrupted=False)
            self.segment_s = 0.0

        def clear_buffer(self) -> None:
            self.on_playback_finished(playback_position=self.segment_s, interrupted=True)
            self.segment_s = 0.0

    return Ear()


@pytest.mark.parametrize("session_of", [services, realtime])
async def test_an_agent_answers_and_is_interrupted(
    server: RunningServer, session_of: Callable[[str], Any]
) -> None:
    from livekit.agents.voice import io

    said: list[str] = []
    errors: list[Any] = []

    def on_item(event: Any) -> None:
        if event.item.type == "message" and event.item.role == "assistant":
            said.append(event.item.text_content or "")

    session = session_of(f"{server.base_url}/v1")
    session.output.audio = ear = ear_of(io)
    session.on("conversation_item_added", on_item)
    session.on("error", errors.append)
    await session.start(agents.Agent(instructions="Repeat."))
    await session.generate_reply(user_input=ASKED).wait_for_playout()
    assert ear.heard_s == pytest.approx(len(WANTED) * 2 * 0.04, rel=0.3)
    ear.has_heard.clear()
    session.generate_reply(user_input=LONG)
    await ear.has_heard.wait()
    await session.interrupt()
    await session.aclose()
    assert not errors
    # The realtime protocol has no temperature any more, and a toy that is warm mistypes.
    assert SequenceMatcher(None, said[0], WANTED).ratio() > 0.8
    assert all(len(each) < len(LONG) for each in said[1:])
    wait_until(lambda: server.num_open == 0)


aiohttp = pytest.importorskip("aiohttp", reason="needs the extra 'clients'")
deepgram = Lazily("livekit.plugins.deepgram", "needs the extra 'clients'")
elevenlabs = Lazily("livekit.plugins.elevenlabs", "needs the extra 'clients'")


SPOKEN_S = len(TEXT) * 2 * 0.04


def of_deepgram(server: RunningServer, session: Any) -> Any:
    url = f"{server.base_url}/v1/speak"
    return deepgram.TTS(api_key="none", base_url=url, http_session=session)


def of_elevenlabs(server: RunningServer, session: Any) -> Any:
    url = f"{server.base_url}/v1"
    return elevenlabs.TTS(
        api_key="none", base_url=url, http_session=session, encoding="mp3_22050_32"
    )


async def whole(tts: Any) -> float:
    async with tts.synthesize(TEXT) as stream:
        return float(sum([event.frame.duration async for event in stream]))


async def in_pieces(tts: Any) -> float:
    async with tts.stream() as stream:
        for word in TEXT.split(" "):
            stream.push_text(f"{word} ")
        stream.end_input()
        return float(sum([event.frame.duration async for event in stream]))


@pytest.mark.parametrize("speak", [whole, in_pieces])
@pytest.mark.parametrize("plugin", [of_deepgram, of_elevenlabs])
async def test_it_hears_all_of_a_stream(
    server: RunningServer, plugin: Callable[..., Any], speak: Callable[..., Any]
) -> None:
    async with aiohttp.ClientSession() as session:
        tts = plugin(server, session)
        try:
            found = float(await speak(tts))
        finally:
            await tts.aclose()
    assert found == pytest.approx(SPOKEN_S, abs=0.4)
    assert server.num_open == 0
