"""Pipecat's services for OpenAI, Deepgram and ElevenLabs speak with the server, given its URL."""

import asyncio
from collections.abc import Callable
from difflib import SequenceMatcher
from typing import Any

import numpy as np
import pytest

from tests.loops import on_a_loop
from tests.servers import RunningServer, wait_until

frames = pytest.importorskip("pipecat.frames.frames", reason="needs the extra 'clients'")

pytestmark = [
    pytest.mark.clients,
    # The framework and what it imports warn of their own affairs.
    pytest.mark.filterwarnings("ignore"),
]

TEXT = "Hello there. This is a test of another client."


@on_a_loop
async def spoken(server: RunningServer, voice: str) -> tuple[bytes, list[Any]]:
    """Return the PCM that the service passed down, and what it passed up: its errors."""
    from pipecat.services.openai.tts import OpenAITTSService
    from pipecat.tests.utils import run_test

    service = OpenAITTSService(
        api_key="none",
        base_url=f"{server.base_url}/v1",
        sample_rate=24000,
        settings=OpenAITTSService.Settings(voice=voice, model="gpt-4o-mini-tts"),
    )
    speak = frames.TTSSpeakFrame(text=TEXT)
    down, up = await run_test(service, frames_to_send=[speak], expected_down_frames=None)
    audio = [each.audio for each in down if isinstance(each, frames.TTSAudioRawFrame)]
    return b"".join(audio), list(up)


def assert_all_is_heard(pcm: bytes, server: RunningServer, margin_s: float) -> None:
    samples = np.frombuffer(pcm, "<i2")
    frames_per_letter, samples_per_frame = 2, 960
    assert len(samples) == pytest.approx(
        len(TEXT) * frames_per_letter * samples_per_frame, abs=24000 * margin_s
    )
    assert np.abs(samples).max() > 1000
    assert server.num_open == 0


@pytest.mark.parametrize("voice", ["alloy", "marin"])
def test_it_hears_all_of_it(server: RunningServer, voice: str) -> None:
    pcm, errors = spoken(server, voice)
    assert not errors
    assert_all_is_heard(pcm, server, 0.05)


ASKED = "Hello there, my friend."
WANTED = f"You said: {ASKED}"


def services(server: RunningServer) -> list[Any]:
    from pipecat.services.openai.llm import OpenAILLMService
    from pipecat.services.openai.tts import OpenAITTSService

    url = f"{server.base_url}/v1"
    chat = OpenAILLMService.Settings(model="toy", temperature=0.0)
    voice = OpenAITTSService.Settings(model="toy", voice="alloy")
    return [
        OpenAILLMService(api_key="none", base_url=url, settings=chat),
        OpenAITTSService(api_key="none", base_url=url, sample_rate=24000, settings=voice),
    ]


def realtime(server: RunningServer) -> list[Any]:
    from pipecat.services.openai.realtime import events
    from pipecat.services.openai.realtime.llm import OpenAIRealtimeLLMService

    audio = events.AudioConfiguration(
        input=events.AudioInput(turn_detection=False), output=events.AudioOutput(voice="alloy")
    )
    settings = OpenAIRealtimeLLMService.Settings(
        model="toy", session_properties=events.SessionProperties(audio=audio)
    )
    url = f"ws://127.0.0.1:{server.port}/v1/realtime"
    return [OpenAIRealtimeLLMService(api_key="none", base_url=url, settings=settings)]


@pytest.mark.parametrize("processors_of", [services, realtime])
async def test_an_agent_answers(
    server: RunningServer, processors_of: Callable[[RunningServer], list[Any]]
) -> None:
    from pipecat.pipeline.pipeline import Pipeline
    from pipecat.processors.aggregators.llm_context import LLMContext
    from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
    from pipecat.tests.utils import run_test

    is_answered = asyncio.Event()

    class Gate(FrameProcessor):
        """Ends the pipeline when the answer has been spoken, not before."""

        async def process_frame(self, frame: Any, direction: FrameDirection) -> None:
            await super().process_frame(frame, direction)
            if isinstance(frame, frames.EndFrame):
                await is_answered.wait()
            await self.push_frame(frame, direction)

    class Ear(FrameProcessor):
        async def process_frame(self, frame: Any, direction: FrameDirection) -> None:
            await super().process_frame(frame, direction)
            if isinstance(frame, frames.LLMFullResponseEndFrame):
                is_answered.set()
            await self.push_frame(frame, direction)

    context = LLMContext([{"role": "user", "content": ASKED}])
    pipeline = Pipeline([Gate(), *processors_of(server), Ear()])
    sent = [frames.LLMContextFrame(context)]
    down, up = await run_test(pipeline, frames_to_send=sent, expected_down_frames=None)
    down, up = list(down), list(up)
    assert not [each for each in up if isinstance(each, frames.ErrorFrame)]
    said = "".join(each.text for each in down if isinstance(each, frames.TTSTextFrame))
    # The realtime protocol has no temperature any more, and a toy that is warm mistypes.
    assert SequenceMatcher(None, said, WANTED).ratio() > 0.8
    audio = [each.audio for each in down if isinstance(each, frames.TTSAudioRawFrame)]
    assert len(b"".join(audio)) / 48000 == pytest.approx(len(WANTED) * 2 * 0.04, rel=0.3)
    wait_until(lambda: server.num_open == 0)


def deepgram(server: RunningServer) -> Any:
    from pipecat.services.deepgram.tts import DeepgramTTSService

    url = f"ws://127.0.0.1:{server.port}"
    return DeepgramTTSService(api_key="none", base_url=url, sample_rate=24000)


def elevenlabs(server: RunningServer) -> Any:
    from pipecat.services.elevenlabs.tts import ElevenLabsTTSService

    return ElevenLabsTTSService(
        api_key="none",
        url=f"ws://127.0.0.1:{server.port}",
        sample_rate=24000,
        settings=ElevenLabsTTSService.Settings(voice="alto"),
    )


@pytest.mark.parametrize("service", [deepgram, elevenlabs])
async def test_it_hears_all_of_a_stream(
    server: RunningServer, service: Callable[[RunningServer], Any]
) -> None:
    from pipecat.tests.utils import SleepFrame, run_test

    sent = [frames.TTSSpeakFrame(text=TEXT), SleepFrame(sleep=2.0)]
    down, up = await run_test(service(server), frames_to_send=sent, expected_down_frames=None)
    audio = [each.audio for each in down if isinstance(each, frames.TTSAudioRawFrame)]
    pcm, errors = b"".join(audio), list(up)
    assert not errors
    assert_all_is_heard(pcm, server, 0.3)


async def test_it_knows_when_words_are_spoken(hibari: RunningServer) -> None:
    from pipecat.services.elevenlabs.tts import ElevenLabsTTSService
    from pipecat.tests.utils import SleepFrame, run_test

    service = ElevenLabsTTSService(
        api_key="none",
        url=f"ws://127.0.0.1:{hibari.port}",
        sample_rate=24000,
        settings=ElevenLabsTTSService.Settings(voice="heart"),
    )
    sent = [frames.TTSSpeakFrame(text=TEXT), SleepFrame(sleep=5.0)]
    down, _ = await run_test(service, frames_to_send=sent, expected_down_frames=None)
    words = [each for each in down if isinstance(each, frames.TTSTextFrame)]
    assert [each.text for each in words] == TEXT.split()
    times_s = [each.pts / 1e9 for each in words]
    assert times_s == sorted(times_s)
    length_s = times_s[-1] - times_s[0]
    assert 1.5 < length_s < 4, "as long as it takes to say"
