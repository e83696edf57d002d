"""Reading and cutting of ONNX networks, so that a family can run a part of one.

An exported network is one graph: it draws its own random numbers, which a request's seed does not
affect, and returns its audio at the end. Cut into parts, with the random numbers as another input,
it is reproducible by a seed and returns audio in chunks.

A file in this format is a protocol buffer; field numbers are those of onnx.proto3.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from antiphon.errors import ModelLoadError

FLOAT, INT64, BOOL = 1, 7, 9
"""Element types, as in `TensorProto.DataType`."""
ELEMENT_TYPES = {
    **{"tensor(float)": FLOAT, "tensor(int64)": INT64, "tensor(bool)": BOOL},
    **{"tensor(uint8)": 2, "tensor(int8)": 3, "tensor(int32)": 6},
    **{"tensor(float16)": 10, "tensor(double)": 11},
}
"""Element types by onnxruntime's names."""

Attribute: TypeAlias = int | float | str | tuple[int, ...]
Field: TypeAlias = tuple[int, int | memoryview]

_MODEL_IR, _MODEL_GRAPH, _MODEL_OPSET = 1, 7, 8
_NODES, _INITIALIZERS, _INPUTS, _OUTPUTS = 1, 5, 11, 12
_EXTERNAL_DATA, _DATA_LOCATION = 13, 14
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FLOAT_ATTRIBUTE, _INT_ATTRIBUTE, _STRING_ATTRIBUTE, _INTS_ATTRIBUTE = 1, 2, 3, 7
_IR_VERSION, _OPSET = 8, 15


@dataclass(frozen=True, slots=True, eq=False)
class OnnxNode:
    """One operation.

    Attributes:
        op_type: type such as ``"Conv"``.
        inputs: names of its inputs; ``""`` for an omitted one.
        attributes: attributes that are numbers, strings or lists of integers.
        has_subgraph: whether it contains graphs, which may read any value.
        encoded: node as encoded in its file; empty for a new one.
    """

    op_type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    name: str = ""
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    has_subgraph: bool = False
    encoded: bytes = b""

    def encode(self) -> bytes:
        if self.encoded:
            return self.encoded
        parts = [_text(1, each) for each in self.inputs]
        parts += [_text(2, each) for each in self.outputs]
        parts += [_text(3, self.name), _text(4, self.op_type)]
        parts += [_bytes(5, _attribute(*each)) for each in self.attributes.items()]
        return b"".join(parts)


@dataclass(frozen=True, slots=True)
class OnnxGraph:
    """Network in the order of computation.

    Attributes:
        nodes: nodes, each after those whose outputs it reads.
        tensors: encoded constants, by name.
        inputs: encoded descriptions, by name.
        opsets: encoded versions of the operator sets.
    """

    nodes: tuple[OnnxNode, ...]
    tensors: Mapping[str, bytes | memoryview]
    inputs: Mapping[str, bytes]
    outputs: tuple[str, ...]
    opsets: tuple[bytes, ...] = ()

    @classmethod
    def read(cls, file: Path) -> "OnnxGraph":
        """Read a file; raises ModelLoadError."""
        try:
            model = list(_fields(memoryview(file.read_bytes())))
            graphs = [_buffer(value) for number, value in model if number == _MODEL_GRAPH]
            if len(graphs) != 1:
                raise ValueError("it has no graph")
            (graph,) = graphs
            parts = list(_fields(graph))
            _check_tensors(file, (_buffer(value) for n, value in parts if n == _INITIALIZERS))
            return cls(
                tuple(_read_node(_buffer(value)) for number, value in parts if number == _NODES),
                {
                    _name(_buffer(value), 8): _buffer(value)
                    for n, value in parts
                    if n == _INITIALIZERS
                },
                {_name(_buffer(v), 1): bytes(_buffer(v)) for n, v in parts if n == _INPUTS},
                tuple(_name(_buffer(v), 1) for n, v in parts if n == _OUTPUTS),
                tuple(bytes(_buffer(value)) for n, value in model if n == _MODEL_OPSET),
            )
        except OSError as error:
            raise ModelLoadError(f"{file}: cannot be read: {error}") from error
        except (ValueError, IndexError, UnicodeDecodeError) as error:
            raise ModelLoadError(f"{file}: is no network in ONNX's format: {error}") from error

    def encode(self) -> bytes:
        """Return the network as a file's content."""
        graph = b"".join(
            [
                *(_bytes(_NODES, node.encode()) for node in self.nodes),
                _text(2, "graph"),
                *(_bytes(_INITIALIZERS, tensor) for tensor in self.tensors.values()),
                *(_bytes(_INPUTS, described) for described in self.inputs.values()),
                *(_bytes(_OUTPUTS, _text(1, name)) for name in self.outputs),
            ]
        )
        opsets = self.opsets or (_number(2, _OPSET),)
        return b"".join(
            [
                _number(_MODEL_IR, _IR_VERSION),
                _bytes(_MODEL_GRAPH, graph),
                *(_bytes(_MODEL_OPSET, opset) for opset in opsets),
            ]
        )

    def needed(self, outputs: Collection[str], given: Collection[str] = ()) -> tuple[OnnxNode, ...]:
        """Return the nodes that compute some values from given ones."""
        wanted, nodes = set(outputs) - set(given), []
        for node in reversed(self.nodes):
            if wanted.isdisjoint(node.outputs):
                continue
            nodes.append(node)
            wanted.update(set(node.inputs) - set(given))
        return tuple(reversed(nodes))

    def part(
        self, nodes: Iterable[OnnxNode], inputs: Mapping[str, int], outputs: Collection[str]
    ) -> "OnnxGraph":
        """Return a network of some of the nodes.

        Args:
            inputs: types of additional inputs, which the whole network computes itself; its own
                inputs need not be listed.
        """
        nodes = tuple(nodes)
        read = {name for node in nodes for name in node.inputs} | set(outputs)
        described = {name: each for name, each in self.inputs.items() if name in read}
        described |= {name: value_info(name, kind) for name, kind in inputs.items()}
        tensors = {name: each for name, each in self.tensors.items() if name in read}
        return OnnxGraph(nodes, tensors, described, tuple(outputs), self.opsets)


def value_info(name: str, element_type: int, shape: Collection[int | str] | None = None) -> bytes:
    """Encode an input with lengths or names of lengths; ``shape`` ``None``: any shape."""
    tensor = _number(1, element_type)
    if shape is not None:
        lengths = [_number(1, n) if isinstance(n, int) else _text(2, n) for n in shape]
        tensor += _bytes(2, b"".join(_bytes(1, length) for length in lengths))
    return _text(1, name) + _bytes(2, _bytes(1, tensor))


def tensor(name: str, values: NDArray[np.float32] | NDArray[np.int64]) -> bytes:
    """Encode a constant."""
    element_type = FLOAT if values.dtype == np.float32 else INT64
    lengths = b"".join(_number(1, length) for length in values.shape)
    return lengths + _number(2, element_type) + _text(8, name) + _bytes(9, values.tobytes())


def _check_tensors(file: Path, tensors: Iterable[memoryview]) -> None:
    """Refuse constants in other files: a network may name any file, and is cut anyway."""
    for encoded in tensors:
        if any(
            number in (_EXTERNAL_DATA, _DATA_LOCATION) and value
            for number, value in _fields(encoded)
        ):
            raise ModelLoadError(f"{file}: keeps '{_name(encoded, 8)}' in another file")


def _read_node(encoded: memoryview) -> OnnxNode:
    inputs: list[str] = []
    outputs: list[str] = []
    name = op_type = ""
    attributes: dict[str, Attribute] = {}
    has_subgraph = False
    for number, value in _fields(encoded):
        if number == 1:
            inputs.append(_string(value))
        elif number == 2:
            outputs.append(_string(value))
        elif number == 3:
            name = _string(value)
        elif number == 4:
            op_type = _string(value)
        elif number == 5:
            key, attribute, is_graph = _read_attribute(_buffer(value))
            has_subgraph |= is_graph
            if attribute is not None:
                attributes[key] = attribute
    return OnnxNode(
        op_type, tuple(inputs), tuple(outputs), name, attributes, has_subgraph, bytes(encoded)
    )


def _read_attribute(encoded: memoryview) -> tuple[str, Attribute | None, bool]:
    """Return an attribute's name, its value if the type is supported, and whether it is a graph."""
    fields = list(_fields(encoded))
    name = "".join(_string(value) for number, value in fields if number == 1)
    ints: list[int] = []
    found: Attribute | None = None
    for number, value in fields:
        if number == 2:
            found = float(np.frombuffer(_buffer(value), "<f4")[0])
        elif number == 3 and isinstance(value, int):
            found = _signed(value)
        elif number == 4:
            found = bytes(_buffer(value)).decode(errors="replace")
        elif number == 8:
            ints += [_signed(value)] if isinstance(value, int) else _packed(value)
    return name, tuple(ints) if ints else found, any(number in (6, 11) for number, _ in fields)


def _attribute(name: str, value: Attribute) -> bytes:
    if isinstance(value, tuple):
        kind, content = _INTS_ATTRIBUTE, b"".join(_number(8, each) for each in value)
    elif isinstance(value, str):
        kind, content = _STRING_ATTRIBUTE, _text(4, value)
    elif isinstance(value, float):
        kind = _FLOAT_ATTRIBUTE
        content = bytes([2 << 3 | _FIXED32]) + np.array([value], "<f4").tobytes()
    else:
        kind, content = _INT_ATTRIBUTE, _number(3, value)
    return _text(1, name) + content + _number(20, kind)


def _fields(encoded: memoryview) -> Iterator[Field]:
    """Yield the number and the value of each field of a message."""
    place = 0
    while place < len(encoded):
        key, place = _read_varint(encoded, place)
        number, wire_type = key >> 3, key & 7
        if wire_type == _VARINT:
            value, place = _read_varint(encoded, place)
            yield number, value
            continue
        if wire_type == _BYTES:
            length, place = _read_varint(encoded, place)
        elif wire_type in (_FIXED32, _FIXED64):
            length = 4 if wire_type == _FIXED32 else 8
        else:
            raise ValueError(f"a field has the type {wire_type}")
        if number == 0 or place + length > len(encoded):
            raise ValueError("it ends early, or is something else")
        yield number, encoded[place : place + length]
        place += length


def _read_varint(encoded: memoryview, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = encoded[place]
        value |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if byte < 0x80:
            return value, place


def _packed(encoded: memoryview) -> list[int]:
    values, place = [], 0
    while place < len(encoded):
        value, place = _read_varint(encoded, place)
        values.append(_signed(value))
    return values


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _buffer(value: int | memoryview) -> memoryview:
    if isinstance(value, int):
        raise ValueError("a number is where something longer is expected")
    return value


def _string(value: int | memoryview) -> str:
    return bytes(_buffer(value)).decode()


def _name(encoded: memoryview, number: int) -> str:
    return next((_string(value) for each, value in _fields(encoded) if each == number), "")


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    parts = []
    while value >= 0x80:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3 | _VARINT) + _varint(value)


def _bytes(number: int, content: bytes | memoryview) -> bytes:
    return b"".join([_varint(number << 3 | _BYTES), _varint(len(content)), content])


def _text(number: int, content: str) -> bytes:
    return _bytes(number, content.encode())
