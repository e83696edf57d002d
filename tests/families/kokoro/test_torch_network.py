"""The original weights: every one is accounted for, in either spelling; noise is the seed's."""

from pathlib import Path

import numpy as np
import pytest
import torch

from antiphon.contracts.family import LoadContext
from antiphon.errors import ModelLoadError
from antiphon.families.kokoro.checkpoint import read_checkpoint
from antiphon.families.kokoro.torch_network import TorchNetwork, build_model, load_torch_network

IDS = tuple(range(43, 63))
STYLE = np.full((1, 256), 0.1, np.float32)
FILE = "kokoro-v1_0.pth"


@pytest.fixture(scope="module")
def network(official: Path) -> TorchNetwork:
    loaded = load_torch_network(read_checkpoint(official), LoadContext(device="cpu"))
    assert isinstance(loaded, TorchNetwork)
    return loaded


def test_samples_are_as_many_as_durations_say(network: TorchNetwork) -> None:
    samples, durations = network.speak(IDS, STYLE, (1, 0))
    assert len(durations) == len(IDS) + 2
    assert durations.min() >= 1
    assert len(samples) == 600 * durations.sum()
    assert np.isfinite(samples).all()
    assert np.abs(samples).max() > 1e-3


def test_the_seed_decides_the_noise_and_nothing_else(network: TorchNetwork) -> None:
    first, durations = network.speak(IDS, STYLE, (1, 0))
    again, _ = network.speak(IDS, STYLE, (1, 0))
    other, same_durations = network.speak(IDS, STYLE, (2, 0))
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(durations, same_durations)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize(
    ("length", "direction"),
    [
        ("weight_g", "weight_v"),
        ("parametrizations.weight.original0", "parametrizations.weight.original1"),
    ],
)
def test_normed_weights_are_joined(
    official: Path, tmp_path: Path, network: TorchNetwork, length: str, direction: str
) -> None:
    parts = torch.load(official / FILE, weights_only=True)
    for name in [name for name in parts["decoder"] if name.endswith("conv1.weight")]:
        weight = parts["decoder"].pop(name)
        stem = name.removesuffix("weight")
        parts["decoder"][stem + length] = weight.norm(dim=(1, 2), keepdim=True)
        parts["decoder"][stem + direction] = weight * 3  # its length does not matter
    torch.save(parts, tmp_path / FILE)
    model = build_model(official, tmp_path / FILE)
    samples, _ = TorchNetwork(model.eval(), torch.device("cpu")).speak(IDS, STYLE, (1, 0))
    expected, _ = network.speak(IDS, STYLE, (1, 0))
    np.testing.assert_allclose(samples, expected, atol=1e-3)


def test_norms_need_no_weights_of_their_own(official: Path, tmp_path: Path) -> None:
    parts = torch.load(official / FILE, weights_only=True)
    for part in parts.values():
        for name in [name for name in part if ".norm.weight" in name or ".norm.bias" in name]:
            del part[name]
    torch.save(parts, tmp_path / FILE)
    build_model(official, tmp_path / FILE)


@pytest.mark.parametrize("fault", ["missing", "shape", "rubbish", "part"])
def test_wrong_weights_are_told(official: Path, tmp_path: Path, fault: str) -> None:
    parts = torch.load(official / FILE, weights_only=True)
    name = "module.lstm.weight_ih_l0"
    if fault == "missing":
        del parts["text_encoder"][name]
    elif fault == "shape":
        parts["text_encoder"][name] = torch.zeros(3)
    elif fault == "part":
        parts["decoder"] = {}
    torch.save(parts, tmp_path / FILE)
    if fault == "rubbish":
        (tmp_path / FILE).write_bytes(b"rubbish")
    with pytest.raises(ModelLoadError, match=r"kokoro-v1_0\.pth"):
        build_model(official, tmp_path / FILE)


def test_a_gpu_computes_in_float32_that_is_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked of the network for a GPU, with the numbers of the CPU."""
    seen = []

    def told(*arguments: object) -> tuple[torch.Tensor, torch.Tensor]:
        seen.append(torch.backends.cudnn.allow_tf32)
        return torch.zeros(600), torch.ones(1)

    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    on_gpu = TorchNetwork(told, torch.device("cuda"))  # type: ignore[arg-type]
    monkeypatch.setattr(on_gpu, "_device", torch.device("cpu"))
    on_gpu.speak(IDS, STYLE, (1, 0))
    assert seen == [False]
    assert torch.backends.cudnn.allow_tf32


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_a_gpu_says_the_same(official: Path, network: TorchNetwork) -> None:
    checkpoint = read_checkpoint(official)
    on_gpu = load_torch_network(checkpoint, LoadContext(device="cuda"))
    (here, durations), (there, same) = (
        each.speak(IDS, STYLE, (1, 0)) for each in (network, on_gpu)
    )
    np.testing.assert_array_equal(durations, same)
    # Phases of bins without energy are rounding, so that samples differ, but not spectra.
    spectra = [np.abs(np.fft.rfft(each.reshape(-1, 600))).mean(axis=0) for each in (here, there)]
    assert np.corrcoef(*spectra)[0, 1] > 0.95
