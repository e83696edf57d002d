"""Exports that hide durations or draw noise are changed; the others stay as they are."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from antiphon.errors import ModelLoadError
from antiphon.families.kit.formats.onnx_graph import FLOAT, OnnxGraph, OnnxNode
from antiphon.families.kokoro.onnx_network import (
    NOISE_LENGTH,
    OnnxNetwork,
    with_durations,
    with_given_noise,
)

FOLDER = Path(__file__).parent
IDS = tuple(range(43, 173))  # two frames each: more samples than there is noise, so that it repeats
STYLE = np.zeros((1, 256), np.float32)
FLOAT16 = 10


def test_an_export_without_noise_stays_as_it_is() -> None:
    graph = OnnxGraph.read(FOLDER / "tiny.onnx")
    same, noises = with_given_noise(graph)
    assert same is graph
    assert not noises


def test_durations_are_found_once() -> None:
    graph = OnnxGraph.read(FOLDER / "tiny.onnx")
    told, found = with_durations(graph)
    assert found
    assert told.outputs[:-1] == graph.outputs
    nothing = replace(graph, nodes=())
    assert with_durations(nothing) == (nothing, False)


def test_noise_is_given_by_the_seed() -> None:
    noisy = OnnxNetwork(FOLDER / "tiny_noisy.onnx", 1)
    (first, durations), (again, _), (other, _) = (
        noisy.speak(IDS * 2, STYLE, seed) for seed in ((1, 0), (1, 0), (2, 0))
    )
    plain, same = OnnxNetwork(FOLDER / "tiny.onnx", 1).speak(IDS * 2, STYLE, (1, 0))
    assert durations is not None
    assert same is not None
    np.testing.assert_array_equal(durations, same)
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    noise = first - plain
    assert len(noise) > NOISE_LENGTH
    # A normal number times a uniform one: mean 0, variance 1/3.
    assert abs(float(noise.mean())) < 0.01
    assert float(noise.var()) == pytest.approx(1 / 3, rel=0.03)


def test_noise_of_half_precision_stays_so(tmp_path: Path) -> None:
    """As exports of half the size draw it, and multiply it by others of its type."""
    graph = OnnxGraph.read(FOLDER / "tiny_noisy.onnx")
    halves = (
        OnnxNode("Cast", ("loud",), ("loud16",), attributes={"to": FLOAT16}),
        OnnxNode("RandomNormalLike", ("loud16",), ("normal16",), attributes={"dtype": FLOAT16}),
        OnnxNode("Mul", ("normal16", "loud16"), ("product16",)),
        OnnxNode("Cast", ("product16",), ("product",), attributes={"to": FLOAT}),
    )
    drawn = [each for each in graph.nodes if each.outputs[0] in ("normal", "uniform", "product")]
    place = graph.nodes.index(drawn[0])
    others = [each for each in graph.nodes if each not in drawn]
    file = tmp_path / "half.onnx"
    nodes = (*others[:place], *halves, *others[place:])
    file.write_bytes(replace(graph, nodes=nodes).encode())
    (first, _), (again, _) = (OnnxNetwork(file, 1).speak(IDS, STYLE, (1, 0)) for _ in range(2))
    plain, _ = OnnxNetwork(FOLDER / "tiny.onnx", 1).speak(IDS, STYLE, (1, 0))
    np.testing.assert_array_equal(first, again)
    assert float((first - plain).std()) == pytest.approx(float(plain.std()), rel=0.03)


@pytest.mark.parametrize("cut", [1, 100, 2000])
def test_files_that_are_cut_off_are_told(cut: int, tmp_path: Path) -> None:
    file = tmp_path / "cut.onnx"
    file.write_bytes((FOLDER / "tiny_noisy.onnx").read_bytes()[:-cut])
    with pytest.raises(ModelLoadError, match=r"cut\.onnx"):
        OnnxNetwork(file, 1)
