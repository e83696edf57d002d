"""Pipecat's own service speaks with the server, by the names that it insists on."""

from typing import Any

import numpy as np
import pytest

from tests.loops import on_a_loop
from tests.servers import RunningServer

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


@pytest.mark.parametrize("voice", ["alloy", "marin"])
def test_it_hears_all_of_it(server: RunningServer, voice: str) -> None:
    pcm, errors = spoken(server, voice)
    assert not errors
    samples = np.frombuffer(pcm, "<i2")
    frames_per_letter, samples_per_frame = 2, 960
    assert len(samples) == pytest.approx(
        len(TEXT) * frames_per_letter * samples_per_frame, abs=24000 * 0.05
    )
    assert np.abs(samples).max() > 1000
    assert server.num_open == 0
