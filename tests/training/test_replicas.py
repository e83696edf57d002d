"""Several processes train one model: each sees other data, all have the same weights."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from antiphon_training.language_model.corpus import random_corpus
from tests.training import replica
from tests.training.conftest import write_tones

pytestmark = pytest.mark.slow  # two processes train twice


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the final states of two processes."""
    folder = tmp_path_factory.mktemp("replicas")
    for index in range(6):
        write_tones(folder / f"audio-{index:05d}-tone.npz", seed=index)
    corpus = random_corpus(300, seed=1, frames=(6, 40), num_codes=32)
    corpus.write(folder / "codes-00000.npz")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    subprocess.run(
        [*command, "--nproc-per-node", "2", replica.__file__, folder],
        env=environment,
        check=True,
    )
    return folder


def _check_equal(folder: Path, model: str, *kinds: str) -> None:
    first, second = (torch.load(folder / f"{model}-{rank}.pt") for rank in range(2))
    assert first["seen"] != second["seen"]
    for kind in kinds:
        for name, value in first[kind].items():
            assert torch.equal(value, second[kind][name]), name


def test_a_codec(trained: Path) -> None:
    _check_equal(trained, "codec", "codec", "average", "judges")


def test_a_decoder_goes_on_alone(trained: Path) -> None:
    first, second = (trained / f"alone-{rank}" for rank in range(2))
    assert torch.load(first / "codes.pt")["step"] == 7
    assert torch.load(first / "codec.pt")["step"] == 9
    assert not [*second.glob("*.pt")], "the second has left"


def test_a_language_model(trained: Path) -> None:
    _check_equal(trained, "lm", "model", "averaged")
    assert (trained / "lm" / "model.safetensors").is_file()
