"""A server that is killed with kill -9 again and again: what it had answered for is there."""

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.chaos.siege import Besieged, besieged, scaled
from tests.recordings import wav
from tests.servers import DEADLINE_S, wait_until

pytestmark = pytest.mark.slow  # 40 rounds at full scale, each with a new server

NUM_ROUNDS = 40
MIN_ROUNDS = 2
JOBS, VOICES = "/v1/audio/speech/jobs", "/v1/audio/voices"
STATES = {"queued", "running", "completed", "failed"}
MAX_NEW_FRAMES = 4


@dataclass
class Answered:
    """Voices and jobs that servers have answered for, over all rounds."""

    voices: set[str] = field(default_factory=set)
    deleted: set[str] = field(default_factory=set)
    jobs: set[str] = field(default_factory=set)

    @property
    def count(self) -> int:
        return len(self.voices) + len(self.deleted) + len(self.jobs)


def keep_busy(server: Besieged, answered: Answered, prefix: str) -> None:
    """Upload and delete voices, and ask for jobs, until the server is gone."""
    with httpx.Client(base_url=server.url, timeout=DEADLINE_S) as client:
        for number in range(1000):
            name = f"{prefix}-{number}"
            files: dict[str, Any] = {"audio_sample": ("a.wav", wav(seed=number))}
            voice = client.post(VOICES, data={"name": name, "consent": "yes"}, files=files)
            assert voice.status_code == 200, voice.text
            answered.voices.add(name)
            body = {"input": "One. Two. Three.", "voice": name, "max_new_tokens": MAX_NEW_FRAMES}
            job = client.post(JOBS, json=body)
            assert job.status_code < 300, job.text
            answered.jobs.add(job.json()["id"])
            if number % 3 == 2:  # whether it is deleted is not known until it is answered
                answered.voices.discard(name)
                assert client.delete(f"{VOICES}/{name}").status_code < 300
                answered.deleted.add(name)


def listed(server: Besieged) -> set[str]:
    voices = httpx.get(server.url + VOICES, timeout=DEADLINE_S).json()["uploaded_voices"]
    return {voice["name"] for voice in voices}


def state_of(server: Besieged, id: str) -> str:
    status: str = httpx.get(f"{server.url}{JOBS}/{id}", timeout=DEADLINE_S).json()["status"]
    return status


def check_all_is_there(server: Besieged, answered: Answered) -> None:
    names = listed(server)
    assert answered.voices <= names
    assert not answered.deleted & names
    assert {state_of(server, id) for id in answered.jobs} <= STATES


def test_what_was_answered_outlives_every_kill(
    tmp_path: Path, checkpoint: Callable[..., Path]
) -> None:
    model, seed, answered = str(checkpoint("tiny", "base")), random.Random(1), Answered()
    num_rounds = max(MIN_ROUNDS, scaled(NUM_ROUNDS))
    for number in range(num_rounds):
        with besieged(tmp_path, model=model) as server, ThreadPoolExecutor(2) as pool:
            check_all_is_there(server, answered)
            wanted = answered.count + seed.randint(1, 25)
            works = [pool.submit(keep_busy, server, answered, f"{number}-{each}") for each in "ab"]
            wait_until(lambda: answered.count >= wanted)  # noqa: B023
            server.process.kill()
            for work in works:
                with suppress(httpx.TransportError):
                    work.result()
    with besieged(tmp_path, model=model) as server:
        check_all_is_there(server, answered)
        for id in answered.jobs:
            wait_until(lambda: state_of(server, id) in ("completed", "failed"))  # noqa: B023
        kept = len(listed(server))
        assert not [path for path in (tmp_path / "tmp").rglob("*") if path.is_file()]
    recordings = [path for path in (tmp_path / "data" / "blobs").rglob("*") if path.is_file()]
    assert len(recordings) == kept, "no halves lie around"
    assert "Traceback" not in (tmp_path / "log").read_text(encoding="utf-8")
    print(f"{num_rounds} kills: {answered.count} answers kept")  # noqa: T201
