"""Fixtures of tests of the training: a tiny codec, and recordings of tones."""

from pathlib import Path

import numpy as np
import pytest
import torch

from antiphon_training.codec_training import CodecRecipe
from antiphon_training.shards import Shard
from antiphon_training.sizes import PRESETS, SAMPLE_RATE_HZ

TINY_RECIPE = CodecRecipe(
    sizes=PRESETS["tiny"],
    steps=100,
    plain_steps=1,
    spectral_steps=3,
    coding_steps=50,
    settling_steps=2,
    batch_crops=2,
    crop_frames=3,
    long_every=3,
    long_frames=6,
    judged_frames=2,
    judge_width=2,
)


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def recordings(tmp_path: Path) -> Path:
    return write_recordings(tmp_path / "recordings")


def write_recordings(folder: Path) -> Path:
    """Make a folder with two shards of tones, 4 s each."""
    folder.mkdir()
    for index in range(2):
        write_tones(folder / f"audio-{index:05d}-tone.npz", seed=index)
    return folder


def write_tones(path: Path, *, seed: int, num_texts: int = 4) -> None:
    random = np.random.default_rng(seed)
    parts = []
    for number in range(num_texts):
        seconds = np.arange(SAMPLE_RATE_HZ + 100 * number) / SAMPLE_RATE_HZ
        tone = np.sin(2 * np.pi * random.uniform(100, 400) * seconds)
        parts.append((8000 * tone).astype(np.int16))
    texts = [f"Tone number {number}." for number in range(num_texts)]
    Shard.of(parts, texts, "tone").write(path, "audio")
