"""Finds how long phonemes last in an ONNX export that does not give it, and makes it an output.

An ONNX file is a protocol buffer, and two of them, one behind the other, are read as one. So a few
bytes that name an output, put behind the file, add that output to the network.
"""

from collections.abc import Iterator
from typing import TypeAlias

_MODEL_GRAPH = 7
_GRAPH_NODE, _GRAPH_OUTPUT = 1, 12
_NODE_INPUT, _NODE_OUTPUT, _NODE_OPERATOR = 1, 2, 4
_VALUE_NAME = 1
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

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
    name = _field(_VALUE_NAME, found[0].encode())
    return network + _field(_MODEL_GRAPH, _field(_GRAPH_OUTPUT, name)), True


def _nodes(model: memoryview) -> Iterator[_Node]:
    for number, graph in _fields(model):
        if number != _MODEL_GRAPH:
            continue
        for part, content in _fields(graph):
            if part == _GRAPH_NODE:
                yield _node(content)


def _node(content: memoryview) -> _Node:
    operator, read, made = "", list[str](), list[str]()
    for number, value in _fields(content):
        if number == _NODE_INPUT:
            read.append(str(value, "utf-8"))
        elif number == _NODE_OUTPUT:
            made.append(str(value, "utf-8"))
        elif number == _NODE_OPERATOR:
            operator = str(value, "utf-8")
    return operator, read, made


def _fields(buffer: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Yield the numbers and contents of a message's fields that have a length.

    Raises:
        IndexError: the message is cut off.
    """
    place = 0
    while place < len(buffer):
        key, place = _varint(buffer, place)
        kind = key & 7
        if kind == _VARINT:
            _, place = _varint(buffer, place)
        elif kind in (_FIXED64, _FIXED32):
            place += 8 if kind == _FIXED64 else 4
        elif kind == _BYTES:
            length, place = _varint(buffer, place)
            yield key >> 3, buffer[place : place + length]
            place += length
        else:
            raise IndexError(f"a field of the unknown kind {kind}")


def _varint(buffer: memoryview, place: int) -> tuple[int, int]:
    """Return a number of seven bits a byte, and the place behind it."""
    value = shift = 0
    while True:
        byte = buffer[place]
        value |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128:
            return value, place


def _field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | _BYTES]) + _as_varint(len(content)) + content


def _as_varint(value: int) -> bytes:
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    return bytes([*made, value])
