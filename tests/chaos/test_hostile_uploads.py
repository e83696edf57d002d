"""Thousands of damaged recordings: each is heard or refused, its decoder alone suffers."""

import random
from collections import Counter
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from antiphon.formats import AudioFormat
from tests.audio.files import muxed, spoken, written
from tests.audio.hostile import (
    id3_with_a_huge_picture,
    mp4_of_untold_fragments,
    mp4_of_untold_samples,
)
from tests.chaos.mutation import mutated_bytes
from tests.chaos.siege import Besieged, besieged, nothing_kept, scaled
from tests.servers import DEADLINE_S

pytestmark = pytest.mark.slow  # a process for each of 3,000 files at full scale

NUM_UPLOADS = 3_000
NUM_CLIENTS = 2
SPEECH = {"input": "Hi.", "ref_text": "Hello.", "max_new_tokens": "2", "response_format": "wav"}


def recordings() -> list[bytes]:
    samples = np.random.default_rng(0).uniform(-0.3, 0.3, 36_000).astype(np.float32)
    whole = [written(samples, 24_000, format) for format in ("WAV", "FLAC", "OGG", "MP3", "AIFF")]
    whole += [spoken(format, samples, 24_000) for format in (AudioFormat.OPUS, AudioFormat.AAC)]
    whole += [muxed("mp4", "aac", samples, 24_000), muxed("matroska", "libopus", samples, 48_000)]
    hostile = [mp4_of_untold_samples(), mp4_of_untold_fragments()]
    return [*whole, *hostile, id3_with_a_huge_picture(4_000_000) + whole[3]]


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory, checkpoint: Callable[..., Path]
) -> Generator[Besieged, None, None]:
    folder = tmp_path_factory.mktemp("uploads")
    with besieged(folder, model=str(checkpoint("tiny", "base"))) as server:
        with httpx.Client(base_url=server.url) as client:
            for data in recordings():  # what is made on first use is there
                assert upload(client, data) in (200, 400)
        yield server


def upload(client: httpx.Client, data: bytes) -> int:
    """Ask for a few frames in the voice of a recording; return the status."""
    files: dict[str, Any] = {"ref_audio": ("voice", data, "audio/wav")}
    answer = client.post("/v1/audio/speech", data=SPEECH, files=files, timeout=DEADLINE_S)
    assert answer.status_code < 500, answer.text
    return answer.status_code


def upload_mutated(server: Besieged, number: int, num_uploads: int) -> Counter[int]:
    seed, originals = random.Random(number), recordings()
    with httpx.Client(base_url=server.url) as client:
        return Counter(
            upload(client, mutated_bytes(seed, seed.choice(originals))) for _ in range(num_uploads)
        )


def test_damaged_recordings_are_heard_or_refused(server: Besieged) -> None:
    num_uploads = scaled(NUM_UPLOADS)
    with (
        nothing_kept(server, "mutated uploads", num_uploads),
        ThreadPoolExecutor(NUM_CLIENTS) as pool,
    ):
        works = [
            pool.submit(upload_mutated, server, number, num_uploads // NUM_CLIENTS)
            for number in range(NUM_CLIENTS)
        ]
        statuses = sum((work.result() for work in works), Counter[int]())
    print(dict(statuses))  # noqa: T201
    with httpx.Client(base_url=server.url) as client:
        assert upload(client, recordings()[0]) == 200
    assert set(statuses) <= {200, 400}
    assert statuses[400]
