"""Pipecat's services for Deepgram and ElevenLabs speak with the server when given its URL."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.servers import RunningServer

frames = pytest.importorskip("pipecat.frames.frames", reason="needs the extra 'clients'")

pytestmark = [
    pytest.mark.clients,
    # The framework and what it imports warn of their own affairs.
    pytest.mark.filterwarnings("ignore"),
]

TEXT = "Hello there. This is a test of another client."


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
async def test_it_hears_all_of_it(
    server: RunningServer, service: Callable[[RunningServer], Any]
) -> None:
    from pipecat.tests.utils import SleepFrame, run_test

    sent = [frames.TTSSpeakFrame(text=TEXT), SleepFrame(sleep=2.0)]
    down, up = await run_test(service(server), frames_to_send=sent, expected_down_frames=None)
    audio = [each.audio for each in down if isinstance(each, frames.TTSAudioRawFrame)]
    pcm, errors = b"".join(audio), list(up)
    assert not errors
    samples = np.frombuffer(pcm, "<i2")
    frames_per_letter, samples_per_frame = 2, 960
    assert len(samples) == pytest.approx(
        len(TEXT) * frames_per_letter * samples_per_frame, abs=24000 * 0.3
    )
    assert np.abs(samples).max() > 1000
    assert server.num_open == 0


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
