"""Several processes train one model: each sees other data, all have the same weights."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

from antiphon_training.language_model.corpus import random_corpus
from tests.training import replica
from tests.training.conftest import write_tones


def _states(kind: str, data: Path, out: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what two processes have at the end."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    subprocess.run(
        [*command, "--nproc-per-node", "2", replica.__file__, kind, data, out],
        env=environment,
        check=True,
    )
    first, second = (torch.load(out / f"{rank}.pt") for rank in range(2))
    return first, second


def _check_equal(first: dict[str, Any], second: dict[str, Any], *kinds: str) -> None:
    assert first["seen"] != second["seen"]
    for kind in kinds:
        for name, value in first[kind].items():
            assert torch.equal(value, second[kind][name]), name


def test_a_codec(recordings: Path, tmp_path: Path) -> None:
    for index in range(2, 6):
        write_tones(recordings / f"audio-{index:05d}-tone.npz", seed=index)
    first, second = _states("codec", recordings, tmp_path)
    _check_equal(first, second, "codec", "average", "judges")


def test_a_language_model(tmp_path: Path) -> None:
    random_corpus(300, seed=1, frames=(6, 40), num_codes=32).write(tmp_path / "codes-00000.npz")
    first, second = _states("language model", tmp_path, tmp_path)
    _check_equal(first, second, "model", "averaged")
    assert (tmp_path / "lm" / "model.safetensors").is_file()
