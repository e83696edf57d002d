"""Sentences in padded steps: what the plain network says, whatever is said beside it."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from antiphon.contracts.family import LoadContext
from antiphon.contracts.types import Samples
from antiphon.families.kokoro import graph_network
from antiphon.families.kokoro.checkpoint import PAD_ID, read_checkpoint
from antiphon.families.kokoro.graph_network import GraphNetwork, SentenceSteps
from antiphon.families.kokoro.model import KokoroModel
from antiphon.families.kokoro.padding import make_padded
from antiphon.families.kokoro.torch_network import build_model, load_torch_network
from tests.families.kokoro.test_torch_network import FILE, IDS, STYLE

CPU = torch.device("cpu")
SENTENCES = [tuple(range(43, 43 + length)) for length in (3, 20, 41, 30, 8, 60)]


@pytest.fixture(scope="module")
def model(official: Path) -> KokoroModel:
    return build_model(official, official / FILE).eval()


@pytest.fixture(scope="module")
def network(model: KokoroModel) -> GraphNetwork:
    return GraphNetwork(model, CPU, num_lanes=2)


def spoken_whole(
    model: KokoroModel, ids: tuple[int, ...], seed: tuple[int, int], device: torch.device = CPU
) -> Samples:
    """Return what the network says of an unpadded sentence, with the same noise."""
    steps = SentenceSteps(model, device)
    with torch.inference_mode():
        steps.fill((PAD_ID, *ids, PAD_ID), STYLE, seed)
        return steps.speak_whole(len(ids) + 2).cpu().numpy()


def check_alike(found: Samples, wanted: Samples) -> None:
    """Phases of bins without energy are rounding, so that samples differ, but not spectra."""
    assert found.shape == wanted.shape
    spectra = [np.abs(np.fft.rfft(each.reshape(-1, 600))).mean(axis=0) for each in (found, wanted)]
    assert np.corrcoef(*spectra)[0, 1] > 0.95
    assert np.sqrt(np.square(found).mean() / np.square(wanted).mean()) == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("ids", SENTENCES, ids=len)
def test_it_says_what_the_plain_network_says(
    model: KokoroModel, network: GraphNetwork, ids: tuple[int, ...]
) -> None:
    samples, durations = network.speak(ids, STYLE, (2**63 + 1, 3))
    assert len(durations) == len(ids) + 2
    assert len(samples) == 600 * durations.sum()
    check_alike(samples, spoken_whole(model, ids, (2**63 + 1, 3)))


def test_the_seed_and_the_sentence_decide_the_noise(network: GraphNetwork) -> None:
    said = [network.speak(IDS, STYLE, seed)[0] for seed in ((1, 0), (1, 0), (2, 0), (1, 1))]
    np.testing.assert_array_equal(said[0], said[1])
    assert not np.array_equal(said[0], said[2])
    assert not np.array_equal(said[0], said[3])


def test_noise_is_normal_and_does_not_depend_on_the_length(model: KokoroModel) -> None:
    steps = SentenceSteps(model, CPU)
    steps.fill(IDS, STYLE, (7, 1))
    long, short = steps._draw(40), steps._draw(9)
    assert torch.equal(long[:, :9], short)
    assert abs(float(long.mean())) < 0.02
    assert abs(float(long.std()) - 1) < 0.02


class _Seen(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes which operators are called."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: set[str] = set()

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        self.names.add(function.name())
        return function(*args, **(kwargs or {}))


def test_steps_ask_the_device_nothing(model: KokoroModel) -> None:
    """Reading a number back, or a size that depends on one, cannot be captured."""
    make_padded(model)
    steps = SentenceSteps(model, CPU)
    steps.fill((PAD_ID, *IDS, PAD_ID), STYLE, (1, 0))
    with torch.inference_mode(), _Seen() as seen:
        durations = steps.read(32)
        steps.samples(120)
    assert durations.sum() <= 120
    asking = {"_local_scalar_dense", "item", "nonzero", "repeat_interleave.self_Tensor"}
    assert not seen.names & {f"aten::{each}" for each in asking}
    assert "aten::searchsorted.Tensor" in seen.names


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Triton tells of changes to come
def test_its_kernel_compiles(model: KokoroModel, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton", reason="Triton is not installed")
    from tests.nn.kernels.compiler import CARDS, compiling

    # Nothing is computed, and what is read must be numbers.
    monkeypatch.setattr(torch, "empty_like", torch.zeros_like)
    make_padded(model)
    steps = SentenceSteps(model, CPU)
    steps.fill((PAD_ID, *IDS, PAD_ID), STYLE, (1, 0))
    monkeypatch.setattr(steps, "_draw", lambda length: torch.zeros(1, length, 2700))
    for card in CARDS:
        compiler = compiling(monkeypatch, card)
        with torch.inference_mode():
            steps.read(32)
            steps.samples(120)
        assert compiler.names == {"_styled_norm"}
        assert not compiler.too_large()


def test_a_sentence_of_another_lane_changes_nothing(network: GraphNetwork) -> None:
    alone = [network.speak(ids, STYLE, (4, 0)) for ids in SENTENCES]
    with ThreadPoolExecutor(4) as threads:
        together = list(threads.map(lambda ids: network.speak(ids, STYLE, (4, 0)), SENTENCES * 3))
    check_same(together, alone * 3)


def check_same(
    found: list[tuple[Samples, NDArray[np.float32]]],
    wanted: list[tuple[Samples, NDArray[np.float32]]],
) -> None:
    for (samples, durations), (same, as_long) in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(samples, same)
        np.testing.assert_array_equal(durations, as_long)


def test_a_sentence_that_is_too_long_is_not_padded(
    model: KokoroModel, network: GraphNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graph_network, "_FRAMES", (5, 10))
    samples, _ = network.speak(IDS, STYLE, (5, 0))
    np.testing.assert_array_equal(samples, spoken_whole(model, IDS, (5, 0)))


def test_a_lane_is_free_after_a_failure(
    model: KokoroModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = GraphNetwork(model, CPU, num_lanes=1)

    def broken(steps: SentenceSteps, num_tokens: int) -> Tensor:
        raise RuntimeError("no memory")

    with monkeypatch.context() as patch:
        patch.setattr(SentenceSteps, "read", broken)
        with pytest.raises(RuntimeError, match="no memory"):
            network.speak(IDS, STYLE, (5, 0))
    samples, _ = network.speak(IDS, STYLE, (5, 0))
    assert len(samples)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_graphs_say_the_same_alone_and_beside_others(official: Path) -> None:
    device = torch.device("cuda")
    model = build_model(official, official / FILE).eval().to(device)
    graphs, plain = (GraphNetwork(model, device, captures=each) for each in (True, False))
    alone = [graphs.speak(ids, STYLE, (4, 0)) for ids in SENTENCES]
    for ids, (samples, durations) in zip(SENTENCES, alone, strict=True):
        eager, as_long = plain.speak(ids, STYLE, (4, 0))
        np.testing.assert_array_equal(durations, as_long)
        check_alike(samples, eager)
        check_alike(samples, spoken_whole(model, ids, (4, 0), device))
    with ThreadPoolExecutor(8) as threads:
        together = list(threads.map(lambda ids: graphs.speak(ids, STYLE, (4, 0)), SENTENCES * 5))
    check_same(together, alone * 5)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_a_gpu_gets_graphs(official: Path) -> None:
    checkpoint = read_checkpoint(official)
    assert isinstance(load_torch_network(checkpoint, LoadContext(device="cuda")), GraphNetwork)
