"""Changes an ONNX export: what is hidden becomes an output, what is drawn becomes an input.

An ONNX file is a protocol buffer, and two of them, one behind the other, are read as one. So a few
bytes that name an output, put behind the file, add that output to the network.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TypeAlias

from antiphon.models.kokoro.protobuf import field, fields, number_field

NOISE_LENGTH = 216_001
"""Numbers in each input of noise, which is repeated as often as it takes."""

_MODEL_GRAPH = 7
_GRAPH_NODE, _GRAPH_TENSOR, _GRAPH_INPUT, _GRAPH_OUTPUT = 1, 5, 11, 12
_NODE_INPUT, _NODE_OUTPUT, _NODE_OPERATOR = 1, 2, 4
_TENSOR_DIMENSION, _TENSOR_TYPE, _TENSOR_INT64, _TENSOR_NAME = 1, 2, 7, 8
_VALUE_NAME, _VALUE_TYPE, _TYPE_TENSOR, _TYPE_ELEMENT, _TYPE_SHAPE = 1, 2, 1, 1, 2
_FLOAT, _INT64 = 1, 7
_DRAWING = ("RandomNormalLike", "RandomUniformLike")
_CONSTANTS = {"antiphon_zero": 0, "antiphon_one": 1, "antiphon_length": NOISE_LENGTH}

_Node: TypeAlias = tuple[str, list[str], list[str]]
"""Operator, inputs and outputs."""


def with_durations(network: bytes) -> tuple[bytes, bool]:
    """Return a network whose last output is durations in frames, and whether it has them.

    They are found where they are rounded, and then limited from below: nothing else is rounded.
    """
    nodes = list(_nodes(memoryview(network)))
    rounded = {name for operator, _, made in nodes if operator == "Round" for name in made}
    found = [
        made[0] for operator, read, made in nodes if operator == "Clip" and rounded & set(read)
    ]
    if len(found) != 1:
        return network, False
    output = field(_GRAPH_OUTPUT, field(_VALUE_NAME, found[0]))
    return network + field(_MODEL_GRAPH, output), True


def with_given_noise(network: bytes) -> tuple[bytes, Mapping[str, bool]]:
    """Return a network that draws no random numbers, but is given them.

    ONNX Runtime draws others in every run, whatever its seed is.

    Returns:
        the network, and its further inputs, of `NOISE_LENGTH` numbers each, by name: whether they
        are normal, with deviation 1, or uniform in [0, 1).
    """
    if not any(operator in _DRAWING for operator, *_ in _nodes(memoryview(network))):
        return network, MappingProxyType({})
    noises: dict[str, bool] = {}
    model = bytearray()
    for number, content, raw in fields(memoryview(network)):
        if number != _MODEL_GRAPH or content is None:
            model += raw
            continue
        graph = bytearray()
        for part, inner, inner_raw in fields(content):
            operator, read, made = _node(inner) if part == _GRAPH_NODE and inner else ("", [], [])
            if operator in _DRAWING:
                noises[f"{made[0]}_noise"] = operator == _DRAWING[0]
                graph += _given(read[0], made[0])
            else:
                graph += inner_raw
        model += field(_MODEL_GRAPH, bytes(graph))
    added = b"".join([*map(_noise_input, noises), *map(_constant, _CONSTANTS)])
    return bytes(model) + field(_MODEL_GRAPH, added), MappingProxyType(noises)


def _given(like: str, made: str) -> bytes:
    """Return nodes that make ``made``, in the shape of ``like``, of an input of noise."""
    zero, one, length = _CONSTANTS
    shape, size, count, more, tiled, cut = (f"{made}_{n}" for n in range(6))
    return b"".join(
        [
            _made_node("Shape", [like], shape),
            _made_node("ReduceProd", [shape], size),
            _made_node("Div", [size, length], count),
            _made_node("Add", [count, one], more),
            _made_node("Tile", [f"{made}_noise", more], tiled),
            _made_node("Slice", [tiled, zero, size], cut),
            _made_node("Reshape", [cut, shape], made),
        ]
    )


def _made_node(operator: str, read: list[str], made: str) -> bytes:
    inputs = b"".join(field(_NODE_INPUT, name) for name in read)
    node = inputs + field(_NODE_OUTPUT, made) + field(_NODE_OPERATOR, operator)
    return field(_GRAPH_NODE, node)


def _noise_input(name: str) -> bytes:
    dimension = field(1, number_field(1, NOISE_LENGTH))
    tensor = number_field(_TYPE_ELEMENT, _FLOAT) + field(_TYPE_SHAPE, dimension)
    kind = field(_VALUE_TYPE, field(_TYPE_TENSOR, tensor))
    return field(_GRAPH_INPUT, field(_VALUE_NAME, name) + kind)


def _constant(name: str) -> bytes:
    """Return a tensor of one whole number, ``[1]``."""
    kind = number_field(_TENSOR_DIMENSION, 1) + number_field(_TENSOR_TYPE, _INT64)
    value = number_field(_TENSOR_INT64, _CONSTANTS[name])
    return field(_GRAPH_TENSOR, kind + value + field(_TENSOR_NAME, name))


def _nodes(model: memoryview) -> Iterator[_Node]:
    for number, graph, _ in fields(model):
        if number != _MODEL_GRAPH or graph is None:
            continue
        for part, content, _ in fields(graph):
            if part == _GRAPH_NODE and content is not None:
                yield _node(content)


def _node(content: memoryview) -> _Node:
    operator, read, made = "", list[str](), list[str]()
    for number, value, _ in fields(content):
        if value is None:
            continue
        if number == _NODE_INPUT:
            read.append(str(value, "utf-8"))
        elif number == _NODE_OUTPUT:
            made.append(str(value, "utf-8"))
        elif number == _NODE_OPERATOR:
            operator = str(value, "utf-8")
    return operator, read, made
