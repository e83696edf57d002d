"""Weights are all there, none is left over, and what no file holds is what the code computed."""

from pathlib import Path
from shutil import copytree

import pytest
import torch

from antiphon.errors import ModelLoadError
from antiphon.families.moss_tts_nano.remote_model import RequestRandomness, load_remote

CPU = torch.device("cpu")


@pytest.fixture
def copied(checkpoint: Path, tmp_path: Path) -> Path:
    return copytree(checkpoint, tmp_path / "copied")


def test_buffers_that_are_in_no_file_are_computed_and_nothing_is_trained(checkpoint: Path) -> None:
    model = load_remote(checkpoint, "AutoModelForCausalLM", device=CPU, dtype=torch.float32)
    expected = 1.0 / 10000.0 ** (torch.arange(0, 16, 2).float() / 16)
    assert torch.equal(model.inv_freq, expected)
    assert not model.training
    assert not any(each.requires_grad for each in model.parameters())


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"mix.weight": None}, "missing weights: mix.weight"),
        ({"more.weight": torch.zeros(1)}, "unknown weights: more.weight"),
        ({"mix.weight": torch.zeros(3, 3)}, "mix.weight"),
    ],
)
def test_weights_are_loaded_strictly(
    copied: Path, change: dict[str, torch.Tensor | None], named: str
) -> None:
    file = copied / "pytorch_model.bin"
    weights = torch.load(file, weights_only=True) | change
    torch.save({name: each for name, each in weights.items() if each is not None}, file)
    with pytest.raises(ModelLoadError, match=named):
        load_remote(copied, "AutoModelForCausalLM", device=CPU, dtype=torch.float32)


@pytest.mark.parametrize("code", ["import no_such_module", "raise RuntimeError('no_such_module')"])
def test_code_that_does_not_run_is_the_checkpoints_fault(copied: Path, code: str) -> None:
    (copied / "modeling_moss_tts_nano.py").write_text(f"{code}\n", encoding="utf-8")
    with pytest.raises(ModelLoadError, match="no_such_module"):
        load_remote(copied, "AutoModelForCausalLM", device=CPU, dtype=torch.float32)


@pytest.mark.parametrize(
    "name",
    [
        "cpu",
        pytest.param(
            "cuda:0",
            marks=[
                pytest.mark.gpu,
                pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
            ],
        ),
    ],
)
def test_random_numbers_are_the_requests(name: str) -> None:
    device = torch.device(name)
    torch.manual_seed(3)
    expected = torch.rand(2, device=device)
    torch.manual_seed(3)
    drawn = []
    for random in [RequestRandomness(seed, device) for seed in (1, 1, 2)]:
        steps = []
        for _ in range(2):
            with random:
                steps.append(torch.rand(4, device=device))
        drawn.append(torch.cat(steps))
    assert torch.equal(torch.rand(2, device=device), expected), "others draw as if alone"
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])
    assert not torch.equal(drawn[0][:4], drawn[0][4:])
