"""A network in parts is the network as a whole, and what is no such network is refused."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest

from antiphon.contracts.types import Samples
from antiphon.errors import ModelLoadError
from antiphon.families.kit.formats.onnx_graph import OnnxGraph, OnnxNode
from antiphon.families.piper.network import PiperNetwork, SpokenSentence
from antiphon.families.piper.reach import reach_of
from tests.families.piper.random_checkpoint import SAMPLES_PER_FRAME

IDS = (1, 0, *(number for symbol in range(30, 60) for number in (symbol, 0)), 2)
SILENT = (0.0, 1.0, 0.0)


@pytest.fixture(scope="module")
def network(directory: Path) -> PiperNetwork:
    return PiperNetwork(directory / "en_US-one.onnx", has_speakers=False)


def prepared(network: PiperNetwork, seed: int = 1, scale: float = 0.7) -> SpokenSentence:
    return network.prepare(IDS, (scale, 1.0, scale), None, np.random.default_rng(seed))


def in_chunks(network: PiperNetwork, sentence: SpokenSentence, sizes: Iterable[int]) -> Samples:
    start, parts = 0, []
    for size in sizes:
        stop = min(start + size, sentence.num_frames)
        if start < stop:
            parts.append(network.decode(sentence, start, stop))
        start = stop
    return np.concatenate(parts)


def test_parts_give_what_the_whole_file_gives(directory: Path, network: PiperNetwork) -> None:
    session = ort.InferenceSession(
        str(directory / "en_US-one.onnx"), providers=["CPUExecutionProvider"]
    )
    values = {
        "input": np.array([IDS], np.int64),
        "input_lengths": np.array([len(IDS)], np.int64),
        "scales": np.array(SILENT, np.float32),
    }
    (expected,) = session.run(None, values)
    sentence = network.prepare(IDS, SILENT, None, np.random.default_rng(0))
    np.testing.assert_allclose(network.decode_whole(sentence), expected.reshape(-1), atol=1e-6)


@pytest.mark.parametrize("size", [1, 3, 7, 50, 10_000])
def test_chunks_are_the_whole(network: PiperNetwork, size: int) -> None:
    sentence = prepared(network)
    whole = network.decode_whole(sentence)
    assert len(whole) == sentence.num_frames * SAMPLES_PER_FRAME
    parts = in_chunks(network, sentence, [size] * sentence.num_frames)
    np.testing.assert_allclose(parts, whole, atol=1e-6)


def test_noise_is_the_seeds(network: PiperNetwork) -> None:
    one, again, other = [
        network.decode_whole(prepared(network, seed))[: 50 * SAMPLES_PER_FRAME]
        for seed in (1, 1, 2)
    ]
    np.testing.assert_array_equal(one, again)
    assert not np.array_equal(one, other)


def test_durations_are_those_of_the_symbols(network: PiperNetwork) -> None:
    sentence = prepared(network)
    assert len(sentence.durations) == len(IDS)
    assert sentence.durations.sum() == sentence.num_frames


def test_a_speaker_is_asked_for_where_there_are_several(directory: Path) -> None:
    with pytest.raises(ModelLoadError, match="sid"):
        PiperNetwork(directory / "en_US-one.onnx", has_speakers=True)
    with pytest.raises(ModelLoadError, match="sid"):
        PiperNetwork(directory / "en_US-several.onnx", has_speakers=False)


def test_a_decoder_that_looks_further_is_not_cut(directory: Path, tmp_path: Path) -> None:
    graph = OnnxGraph.read(directory / "en_US-one.onnx")
    *nodes, tanh, last = graph.nodes
    turned = OnnxNode("Transpose", ("tanh",), ("turned",), "turned", {"perm": (0, 1, 2)})
    last = OnnxNode("Unsqueeze", ("turned", "first"), ("output",), "output")
    changed = OnnxGraph((*nodes, tanh, turned, last), graph.tensors, graph.inputs, graph.outputs)
    assert reach_of(changed, "z", "output") is None
    file = tmp_path / "changed.onnx"
    file.write_bytes(changed.encode())
    network = PiperNetwork(file, has_speakers=False)
    assert network.samples_per_frame is None
    original = PiperNetwork(directory / "en_US-one.onnx", has_speakers=False)
    np.testing.assert_allclose(
        network.decode_whole(prepared(network)),
        original.decode_whole(prepared(original)),
        atol=1e-6,
    )


def test_a_network_that_tells_no_durations_is_refused(directory: Path, tmp_path: Path) -> None:
    graph = OnnxGraph.read(directory / "en_US-one.onnx")
    nodes = (
        OnnxNode("Floor", node.inputs, node.outputs) if node.op_type == "Ceil" else node
        for node in graph.nodes
    )
    file = tmp_path / "changed.onnx"
    file.write_bytes(OnnxGraph(tuple(nodes), graph.tensors, graph.inputs, graph.outputs).encode())
    with pytest.raises(ModelLoadError, match="durations"):
        PiperNetwork(file, has_speakers=False)


def test_random_numbers_that_no_seed_reaches_are_refused(directory: Path, tmp_path: Path) -> None:
    graph = OnnxGraph.read(directory / "en_US-one.onnx")
    more = OnnxNode("RandomUniformLike", ("z",), ("drawn_more",), "more")
    file = tmp_path / "changed.onnx"
    file.write_bytes(
        OnnxGraph((*graph.nodes, more), graph.tensors, graph.inputs, graph.outputs).encode()
    )
    with pytest.raises(ModelLoadError, match="RandomUniformLike"):
        PiperNetwork(file, has_speakers=False)
