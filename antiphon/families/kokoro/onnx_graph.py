"""Changes an ONNX export: what is hidden becomes an output, what is drawn becomes an input."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from antiphon.families.kit.onnx_graph import FLOAT, OnnxGraph, OnnxNode, tensor, value_info

NOISE_LENGTH = 216_001
"""Numbers in each input of noise, which is repeated as often as it takes."""

_DRAWING = ("RandomNormalLike", "RandomUniformLike")
_CONSTANTS = {"antiphon_zero": 0, "antiphon_one": 1, "antiphon_length": NOISE_LENGTH}


def with_durations(graph: OnnxGraph) -> tuple[OnnxGraph, bool]:
    """Return a network whose last output is durations in frames, and whether it has them.

    They are found where they are rounded, and then limited from below: nothing else is rounded.
    """
    rounded = {name for node in graph.nodes if node.op_type == "Round" for name in node.outputs}
    found = [
        node.outputs[0]
        for node in graph.nodes
        if node.op_type == "Clip" and rounded & set(node.inputs)
    ]
    if len(found) != 1:
        return graph, False
    return replace(graph, outputs=(*graph.outputs, found[0])), True


def with_given_noise(graph: OnnxGraph) -> tuple[OnnxGraph, Mapping[str, bool]]:
    """Return a network that draws no random numbers, but is given them.

    ONNX Runtime draws others in every run, whatever its seed is.

    Returns:
        the network, and its further inputs, of `NOISE_LENGTH` numbers each, by name: whether they
        are normal, with deviation 1, or uniform in [0, 1).
    """
    noises: dict[str, bool] = {}
    nodes: list[OnnxNode] = []
    for node in graph.nodes:
        if node.op_type in _DRAWING:
            noises[f"{node.outputs[0]}_noise"] = node.op_type == _DRAWING[0]
            nodes += _given(node)
        else:
            nodes.append(node)
    if not noises:
        return graph, MappingProxyType({})
    inputs = {name: value_info(name, FLOAT, (NOISE_LENGTH,)) for name in noises}
    constants = {name: tensor(name, np.array([value])) for name, value in _CONSTANTS.items()}
    changed = replace(
        graph,
        nodes=tuple(nodes),
        inputs={**graph.inputs, **inputs},
        tensors={**graph.tensors, **constants},
    )
    return changed, MappingProxyType(noises)


def _given(drawing: OnnxNode) -> tuple[OnnxNode, ...]:
    """Return nodes that make what a node draws, in shape and type, of an input of noise."""
    like, made = drawing.inputs[0], drawing.outputs[0]
    zero, one, length = _CONSTANTS
    shape, size, count, more, tiled, cut, shaped = (f"{made}_{n}" for n in range(7))
    return (
        OnnxNode("Shape", (like,), (shape,)),
        OnnxNode("ReduceProd", (shape,), (size,)),
        OnnxNode("Div", (size, length), (count,)),
        OnnxNode("Add", (count, one), (more,)),
        OnnxNode("Tile", (f"{made}_noise", more), (tiled,)),
        OnnxNode("Slice", (tiled, zero, size), (cut,)),
        OnnxNode("Reshape", (cut, shape), (shaped,)),
        OnnxNode("Cast", (shaped,), (made,), attributes={"to": _type_of(drawing)}),
    )


def _type_of(drawing: OnnxNode) -> int:
    """Return the element type of a random node, as the exporter wrote it."""
    dtype = drawing.attributes.get("dtype", FLOAT)
    return dtype if isinstance(dtype, int) else FLOAT
