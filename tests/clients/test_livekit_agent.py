"""An agent of LiveKit has our chat and voice: as two services, and by the realtime protocol."""

import asyncio
from collections.abc import Callable
from difflib import SequenceMatcher
from typing import Any

import pytest

from tests.lazily import Lazily
from tests.servers import RunningServer, wait_until

openai = Lazily("livekit.plugins.openai", "needs the extra 'clients'")
agents = Lazily("livekit.agents", "needs the extra 'clients'")

pytestmark = [
    pytest.mark.clients,
    # The plugin and what it imports warn of their own affairs.
    pytest.mark.filterwarnings("ignore"),
]

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
