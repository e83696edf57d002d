"""Networks are read as they are written, and a part of one computes what the whole does there."""

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest

from antiphon.errors import ModelLoadError
from antiphon.families.kit.formats.onnx_graph import (
    ELEMENT_TYPES,
    FLOAT,
    OnnxGraph,
    OnnxNode,
    tensor,
    value_info,
)

WEIGHT = np.arange(6, dtype=np.float32).reshape(1, 2, 3)
GRAPH = OnnxGraph(
    (
        OnnxNode("Conv", ("x", "weight"), ("y",), "conv", {"kernel_shape": (3,), "pads": (1, 1)}),
        OnnxNode("LeakyRelu", ("y",), ("z",), "relu", {"alpha": 0.5}),
        OnnxNode("Add", ("z", "two"), ("w",), "add"),
        OnnxNode("Neg", ("z",), ("unused",), "neg"),
    ),
    {"weight": tensor("weight", WEIGHT), "two": tensor("two", np.array(2, np.float32))},
    {"x": value_info("x", FLOAT, [1, 2, "length"])},
    ("w",),
)
X = np.linspace(-1, 1, 10, dtype=np.float32).reshape(1, 2, 5)


def run(graph: OnnxGraph, **values: Any) -> list[Any]:
    session = ort.InferenceSession(graph.encode(), providers=["CPUExecutionProvider"])
    found: list[Any] = session.run(list(graph.outputs), values)
    return found


@pytest.fixture
def read(tmp_path: Path) -> OnnxGraph:
    file = tmp_path / "network.onnx"
    file.write_bytes(GRAPH.encode())
    return OnnxGraph.read(file)


def test_what_is_written_is_read(read: OnnxGraph) -> None:
    assert [node.op_type for node in read.nodes] == ["Conv", "LeakyRelu", "Add", "Neg"]
    assert read.nodes[0].attributes == {"kernel_shape": (3,), "pads": (1, 1)}
    assert read.nodes[1].attributes == {"alpha": 0.5}
    assert list(read.tensors) == ["weight", "two"]
    assert list(read.inputs) == ["x"]
    assert read.outputs == ("w",)
    padded = np.pad(X, ((0, 0), (0, 0), (1, 1)))
    expected = [float((padded[0, :, n : n + 3] * WEIGHT[0]).sum()) for n in range(5)]
    leaky = np.where(np.array(expected) < 0, np.array(expected) / 2, expected) + 2
    np.testing.assert_allclose(run(read, x=X)[0][0, 0], leaky, rtol=1e-5)


@pytest.mark.parametrize(("name", "kind"), ELEMENT_TYPES.items())
def test_types_are_those_of_onnxruntime(name: str, kind: int) -> None:
    cast = OnnxNode("Cast", ("x",), ("y",), attributes={"to": kind})
    graph = OnnxGraph((cast,), {}, {"x": value_info("x", FLOAT)}, ("y",))
    session = ort.InferenceSession(graph.encode(), providers=["CPUExecutionProvider"])
    assert [each.type for each in session.get_outputs()] == [name]


@pytest.mark.parametrize("dtype", [np.int32, np.float16])
def test_parts_hand_on_what_is_no_float(dtype: type) -> None:
    whole = ort_type_of(dtype)
    nodes = (
        OnnxNode("Cast", ("x",), ("whole",), attributes={"to": whole}),
        OnnxNode("Cast", ("whole",), ("y",), attributes={"to": FLOAT}),
    )
    graph = OnnxGraph(nodes, {}, {"x": value_info("x", FLOAT)}, ("y",))
    first = graph.part(nodes[:1], {}, ("whole",))
    (handed,) = run(first, x=X)
    (made,) = run(graph.part(nodes[1:], {"whole": whole}, ("y",)), whole=handed)
    np.testing.assert_array_equal(made, X.astype(dtype).astype(np.float32))


def ort_type_of(dtype: type) -> int:
    return ELEMENT_TYPES[f"tensor({np.dtype(dtype).name})"]


def test_parts_one_after_the_other_are_the_whole(read: OnnxGraph) -> None:
    first = read.needed(["z"])
    last = read.needed(["w"], given=["z"])
    assert [node.name for node in first] == ["conv", "relu"]
    assert [node.name for node in last] == ["add"]
    (z,) = run(read.part(first, {}, ["z"]), x=X)
    part = read.part(last, {"z": FLOAT}, ["w"])
    assert list(part.tensors) == ["two"]
    np.testing.assert_array_equal(run(part, z=z)[0], run(read, x=X)[0])


@pytest.mark.parametrize("content", [b"", b"no network at all", b"\x3a\xff\x01"])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "network.onnx"
    file.write_bytes(content)
    with pytest.raises(ModelLoadError, match=r"network\.onnx"):
        OnnxGraph.read(file)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelLoadError, match=r"gone\.onnx"):
        OnnxGraph.read(tmp_path / "gone.onnx")


def test_weights_in_other_files_are_refused(tmp_path: Path) -> None:
    elsewhere = tensor("two", np.array(2, np.float32))
    elsewhere.data_location = 1  # EXTERNAL
    tensors = {**GRAPH.tensors, "two": elsewhere}
    file = tmp_path / "network.onnx"
    file.write_bytes(OnnxGraph(GRAPH.nodes, tensors, GRAPH.inputs, GRAPH.outputs).encode())
    with pytest.raises(ModelLoadError, match="'two' in another file"):
        OnnxGraph.read(file)
