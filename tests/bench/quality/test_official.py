"""Speakers and opinions by the weights that packages bring, in a folder of their own."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from antiphon_bench.quality import opinion, speaker_vectors

pytestmark = pytest.mark.oracle

JUDGE = """
import json, sys
import numpy as np
from antiphon import Antiphon
from antiphon_bench.quality.recording import SpeechRecording
from antiphon_bench.quality.report import judge
from antiphon_bench.quality.speaker_vectors import SpeakerVectors, similarity

texts = (
    "Please call Stella and ask her to bring these things from the store.",
    "The weather tomorrow will be cold and cloudy with a chance of rain.",
)
with Antiphon.load() as voice:
    made = [voice.speech(text) for text in texts]
said = [
    SpeechRecording(str(number), (each.samples.astype(np.float64),), each.sample_rate_hz)
    for number, each in enumerate(made)
]
samples, rate_hz = said[0].samples, said[0].sample_rate_hz
other = SpeechRecording("other", (samples,), round(rate_hz / 1.4))
noise = np.random.default_rng(0).normal(0, 0.05, len(samples))
noisy = SpeechRecording("noisy", (samples + noise,), rate_hz)
report = judge([*said, noisy], ["speaker", "mos"])
encoder = SpeakerVectors()
vectors = [encoder.embed(each.samples, each.sample_rate_hz) for each in (*said, other)]
json.dump({
    "same": similarity(vectors[0], vectors[1]),
    "other": similarity(vectors[0], vectors[2]),
    "mos": [row["mos"] for row in report["recordings"]],
}, sys.stdout)
"""


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("packages")
    for line in (speaker_vectors.INSTALL, opinion.INSTALL):
        _, *arguments = line.split()
        command = [sys.executable, "-m", "pip", *arguments, "--quiet", "--target", str(folder)]
        subprocess.run(command, check=True)
    root = Path(speaker_vectors.__file__).parents[3]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(root), str(folder)])}
    done = subprocess.run(
        [sys.executable, "-c", JUDGE], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


def test_one_voice_is_told_from_another(judged: dict[str, Any]) -> None:
    assert judged["same"] >= speaker_vectors.SAME_SPEAKER > judged["other"]


def test_clean_speech_is_better_than_noisy(judged: dict[str, Any]) -> None:
    first, second, noisy = judged["mos"]
    assert min(first, second) > 4
    assert noisy < min(first, second) - 1
