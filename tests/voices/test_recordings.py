"""Recordings of requests: loaded, decoded at the rate that is wanted, and decoded once."""

import asyncio
import io
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
import soundfile

from antiphon.audio.decode import decode_audio
from antiphon.audio.plain_wav import read_plain_wav
from antiphon.audio.recording import read_recording
from antiphon.audio.sandbox import DecodeSandbox
from antiphon.config import ReferenceSettings
from antiphon.contracts.types import Samples
from antiphon.errors import InvalidRequestError
from antiphon.sandbox.process import Sandbox
from antiphon.voices.recordings import Recordings
from tests.recordings import RECORDING, RECORDING_URI, data_uri, wav
from tests.servers import DEADLINE_S

T = TypeVar("T")


def flac(seed: int) -> bytes:
    samples, sample_rate_hz = soundfile.read(io.BytesIO(wav(seed=seed)))
    file = io.BytesIO()
    soundfile.write(file, samples, sample_rate_hz, format="FLAC")
    return file.getvalue()


@asynccontextmanager
async def loader(**settings: Any) -> AsyncGenerator[Recordings, None]:
    recordings = Recordings(ReferenceSettings(**settings))
    try:
        yield recordings
    finally:
        recordings.close()


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the rates that files were decoded at, one entry a file."""
    rates: list[int] = []
    decode, read = DecodeSandbox.decode, read_plain_wav

    def noted_decode(self: DecodeSandbox, data: bytes, **more: Any) -> Samples:
        rates.append(more["sample_rate_hz"])
        return decode(self, data, **more)

    def noted_read(data: bytes, **more: Any) -> "Samples | None":
        samples = read(data, **more)
        if samples is not None:
            rates.append(more["sample_rate_hz"])
        return samples

    monkeypatch.setattr(DecodeSandbox, "decode", noted_decode)
    monkeypatch.setattr("antiphon.voices.recordings.read_plain_wav", noted_read)
    return rates


async def test_every_address_gives_the_same_samples(tmp_path: Path, decoded: list[int]) -> None:
    (tmp_path / "a.wav").write_bytes(RECORDING)
    expected = read_recording(RECORDING, sample_rate_hz=24_000, max_duration_s=30)
    async with loader(allowed_media_path=tmp_path) as recordings:
        for address in (RECORDING, RECORDING_URI, f"file://{tmp_path}/a.wav"):
            samples = await recordings.load(address, 24_000)
            np.testing.assert_array_equal(samples, expected)
            assert not samples.flags.writeable
    assert decoded == [24_000]


@pytest.mark.parametrize("is_plain", [True, False])
async def test_a_recording_that_comes_again_is_not_decoded_again(
    decoded: list[int], is_plain: bool
) -> None:
    file, other = (wav(seed=seed) if is_plain else flac(seed=seed) for seed in (0, 1))
    async with loader() as recordings:
        loads = [recordings.load(data_uri(file), 24_000) for _ in range(5)]
        await asyncio.gather(*loads, recordings.load(file, 16_000))
        await recordings.load(other, 24_000)
    assert sorted(decoded) == [16_000, 24_000, 24_000]


@pytest.mark.parametrize(
    ("recording", "words"),
    [
        (b"?", "Could not decode audio"),
        ("data:,?", "Could not decode audio"),
        ("https://example.com/a.wav", "fetches no URLs"),
        ("a.wav", "must be a data: URI"),
        (wav(0.5), "too short"),
        (wav(2.5), "too long"),
        (bytes(200_000), "too large"),
        (data_uri(bytes(200_000)), "too large"),
    ],
    ids=lambda value: str(value)[:20],
)
async def test_what_will_not_do_is_told(recording: str | bytes, words: str) -> None:
    async with loader(max_duration_s=2, max_bytes=100_000) as recordings:
        with pytest.raises(InvalidRequestError, match=words) as caught:
            await recordings.load(recording, 24_000)
        assert caught.value.param == "ref_audio"


async def test_a_failure_is_not_remembered(decoded: list[int]) -> None:
    async with loader() as recordings:
        for _ in range(2):
            with pytest.raises(InvalidRequestError):
                await recordings.load(b"?", 24_000)
        assert len(await recordings.load(RECORDING, 24_000)) == 36_000
    assert len(decoded) == 3


async def test_only_the_last_ones_are_remembered(decoded: list[int]) -> None:
    files = [wav(1, seed) for seed in range(17)]
    async with loader() as recordings:
        for file in files:
            await recordings.load(file, 8_000)
        await recordings.load(files[-1], 8_000)
        assert len(decoded) == 17
        await recordings.load(files[0], 8_000)  # the oldest had to go
        assert len(decoded) == 18


async def test_whoever_leaves_takes_nothing_from_the_others(decoded: list[int]) -> None:
    async with loader() as recordings:
        leaving = asyncio.create_task(recordings.load(RECORDING, 24_000))
        staying = asyncio.create_task(recordings.load(RECORDING, 24_000))
        await asyncio.sleep(0)
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        assert len(await staying) == 36_000
    assert decoded == [24_000]


async def test_what_is_closed_refuses() -> None:
    async with loader() as recordings:
        recordings.close()
        with pytest.raises(RuntimeError):
            await recordings.load(RECORDING, 24_000)


async def test_a_plain_file_asks_no_child(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def ask(self: Sandbox, data: bytes, **limits: float) -> bytes:
        asked.append(len(data))
        return decode_audio(data, sample_rate_hz=24_000, max_duration_s=30).tobytes()

    monkeypatch.setattr(Sandbox, "ask", ask)
    async with loader() as recordings:
        plain, other = RECORDING, flac(seed=1)
        for file, num_asked in ((plain, 0), (other, 1)):
            samples = await recordings.load(file, 24_000)
            expected = decode_audio(file, sample_rate_hz=24_000, max_duration_s=30)
            np.testing.assert_array_equal(samples, expected)
            assert asked == [len(other)] * num_asked


async def test_files_that_are_not_plain_push_none_out_that_are(decoded: list[int]) -> None:
    async with loader() as recordings:
        await recordings.load(RECORDING, 24_000)
        for seed in range(17):
            await recordings.load(flac(seed), 24_000)
        assert len(decoded) == 18
        await recordings.load(RECORDING, 24_000)
        assert len(decoded) == 18


async def test_plain_files_do_not_wait_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    is_free, num_waiting = threading.Event(), threading.Semaphore(0)

    def wait(self: DecodeSandbox, data: bytes, **more: Any) -> Samples:
        num_waiting.release()
        assert is_free.wait(DEADLINE_S)
        return np.random.default_rng(0).uniform(-0.3, 0.3, 24_000).astype(np.float32)

    monkeypatch.setattr(DecodeSandbox, "decode", wait)
    async with loader() as recordings:
        others = [asyncio.create_task(recordings.load(flac(seed), 24_000)) for seed in range(8)]
        await asyncio.to_thread(num_waiting.acquire)
        try:
            assert len(await recordings.load(RECORDING, 24_000)) == 36_000
        finally:
            is_free.set()
        assert [len(await each) for each in others] == [24_000] * 8
