"""A model of two channels, from its chunks to files: decoded by a codec, or by a generator."""

from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import httpx
import numpy as np
import pytest
import soundfile

from antiphon.audio.utterance import Audio, collect
from antiphon.config import ModelSettings, Settings, SpeechSettings
from antiphon.contracts.family import SpeechCapabilities
from antiphon.contracts.types import AudioChunk, SpeechRequest, Voice
from antiphon.formats import AudioFormat
from antiphon.pipeline.jobs.speech_files import JobFiles
from antiphon.pipeline.speech.model import SpeechModel
from antiphon.pipeline.speech.segment_checkpoint import SegmentCheckpoints
from antiphon.pipeline.speech.service import Speech
from antiphon.storage.blobs import BlobStore
from tests import two_channels
from tests.servers import start_server

TEXT = "One sentence.\n\n" + "Another that goes on and on. " * 8 + "[pause:0.5s] The end."


@pytest.fixture(autouse=True)
def families(monkeypatch: pytest.MonkeyPatch) -> None:
    two_channels.register(monkeypatch)


@asynccontextmanager
async def on_model(source: str) -> AsyncGenerator[Speech, None]:
    model = await SpeechModel.load(ModelSettings(source=source, max_slots=4))
    speech = Speech({model.name: model}, SpeechSettings())
    try:
        yield speech
    finally:
        speech.close()
        await model.close()


@pytest.mark.parametrize("source", ["decoded", "generated"])
@pytest.mark.parametrize("speed", [1.0, 1.5])
async def test_a_stream_keeps_its_channels(source: str, speed: float, tmp_path: Path) -> None:
    request = SpeechRequest(TEXT, seed=7, speed=speed, sample_rate_hz=16_000, volume=0.5)
    async with on_model(source) as speech:
        async with aclosing(speech.stream(request)) as events:
            chunks = [event async for event in events if isinstance(event, AudioChunk)]
        assert all(chunk.samples.shape[1:] == (2,) for chunk in chunks)
        whole: Audio = await collect(speech.stream(request))
        np.testing.assert_array_equal(
            whole.samples, np.concatenate([chunk.samples for chunk in chunks])
        )
        assert whole.duration_s == pytest.approx(sum(chunk.duration_s for chunk in chunks))
        assert whole.samples[:, 0].any()
        np.testing.assert_array_equal(whole.samples[:, 1], whole.samples[:, 0] / 2)
        whole.save(tmp_path / "saved.wav")
        saved, rate_hz = soundfile.read(tmp_path / "saved.wav")
        assert saved.shape == whole.samples.shape
        assert rate_hz == 16_000


async def test_a_codec_of_two_channels_says_what_one_of_one_does() -> None:
    heard: dict[str, Audio] = {}
    for source in ("toy", "decoded"):
        async with on_model(source) as speech:
            heard[source] = await collect(speech.stream(SpeechRequest(TEXT, seed=7)))
    np.testing.assert_array_equal(heard["decoded"].samples[:, 0], heard["toy"].samples)


async def test_a_job_keeps_its_channels(tmp_path: Path) -> None:
    """What is read again from the disk is what was spoken, and so is the file."""
    request = SpeechRequest(TEXT, seed=7)
    async with on_model("decoded") as speech:
        plain = await collect(speech.stream(request))
        for _ in range(2):
            checkpoints = SegmentCheckpoints(tmp_path / "0", speech._workers, print, print)
            kept = await collect(speech.stream(request, checkpoints))
            np.testing.assert_array_equal(kept.samples, plain.samples)
        files = JobFiles(
            tmp_path, AudioFormat.WAV, two_channels.RATE_HZ, 2, is_split=False, spend=print
        )
        for _ in range(2):  # a second of silence between
            files.begin_chapter()
            files.write(plain.samples)
            files.end_chapter(None)
        (kept_file,) = files.hand_over(BlobStore(tmp_path / "media"), "job")
        written, _ = soundfile.read(tmp_path / "media" / kept_file.key)
        num_samples = 2 * len(plain.samples) + two_channels.RATE_HZ
        assert written.shape == (num_samples, 2)
        assert kept_file.duration_s == num_samples / two_channels.RATE_HZ


def test_a_client_is_told_of_channels_or_gets_one() -> None:
    with (
        start_server(Settings(model=ModelSettings(source="decoded"))) as server,
        httpx.Client(base_url=server.base_url, timeout=60) as client,
    ):
        body = {"input": "One sentence.", "seed": 1, "response_format": "pcm"}
        raw = client.post("/v1/audio/speech", json=body)
        assert raw.headers["Content-Type"] == "audio/pcm;rate=24000;channels=2"
        assert raw.headers["X-Channels"] == "2"
        both = np.frombuffer(raw.content, "<i2").reshape(-1, 2)
        assert np.abs(both[:, 0] / 2 - both[:, 1]).max() <= 1
        whole = client.post(
            "/v1/audio/speech", json={**body, "stream": False, "response_format": "wav"}
        )
        assert whole.headers["Content-Type"] == "audio/wav"
        assert whole.content[44:] == raw.content
        assert client.get("/v1/models").json()["data"][0]["channels"] == 2
        telephone = client.post(
            "/v1/speak?encoding=linear16&container=none", json={"text": "One sentence."}
        )
        assert telephone.status_code == 200
        assert len(telephone.content) == len(raw.content) // 2, "other services' samples are mono"


def test_a_model_has_one_or_two_channels() -> None:
    with pytest.raises(ValueError, match="1 or 2 channels"):
        SpeechCapabilities(sample_rate_hz=24_000, channels=3, voices=(Voice(id="a", name="A"),))
