"""Reading and cutting of ONNX networks, so that a family can run a part of one.

An exported network is one graph: it draws its own random numbers, which a request's seed does not
affect, and returns its audio at the end. Cut into parts, with the random numbers as another input,
it is reproducible by a seed and returns audio in chunks.

A file in this format is a protocol buffer. The fields below are those of onnx.proto that are read
or written; all others stay in their messages.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
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
Message: TypeAlias = Any
"""Message of a class that is made here."""

_PACKAGE = "antiphon.onnx"
_REPEATED = "*"
_FIELDS: Mapping[str, Mapping[str, tuple[int, str]]] = {
    "Model": {"ir_version": (1, "int64"), "graph": (7, "Graph"), "opset_import": (8, "*Opset")},
    "Opset": {"domain": (1, "string"), "version": (2, "int64")},
    "Graph": {
        **{"node": (1, "*Node"), "name": (2, "string"), "initializer": (5, "*Tensor")},
        **{"input": (11, "*Value"), "output": (12, "*Value")},
    },
    "Node": {
        **{"input": (1, "*string"), "output": (2, "*string"), "name": (3, "string")},
        **{"op_type": (4, "string"), "attribute": (5, "*Attribute")},
    },
    "Attribute": {
        **{"name": (1, "string"), "f": (2, "float"), "i": (3, "int64"), "s": (4, "bytes")},
        **{"g": (6, "bytes"), "ints": (8, "*int64"), "graphs": (11, "*bytes")},
        "type": (20, "int32"),
    },
    "Tensor": {
        **{"dims": (1, "*int64"), "data_type": (2, "int32"), "name": (8, "string")},
        **{"raw_data": (9, "bytes"), "external_data": (13, "*bytes")},
        "data_location": (14, "int32"),
    },
    "Value": {"name": (1, "string"), "type": (2, "Type")},
    "Type": {"tensor_type": (1, "TensorType")},
    "TensorType": {"elem_type": (1, "int32"), "shape": (2, "Shape")},
    "Shape": {"dim": (1, "*Dimension")},
    "Dimension": {"dim_value": (1, "int64"), "dim_param": (2, "string")},
}
_FLOAT_ATTRIBUTE, _INT_ATTRIBUTE, _STRING_ATTRIBUTE, _INTS_ATTRIBUTE = 1, 2, 3, 7
_IR_VERSION, _OPSET = 8, 15


def _message_classes() -> Mapping[str, Any]:
    """Return the classes of `_FIELDS` by name."""
    file = FileDescriptorProto(name="antiphon/onnx.proto", package=_PACKAGE)
    for name, its_fields in _FIELDS.items():
        described = file.message_type.add(name=name)
        for field_name, (number, kind) in its_fields.items():
            added = described.field.add(name=field_name, number=number)
            is_repeated, kind = kind.startswith(_REPEATED), kind.removeprefix(_REPEATED)
            label = "LABEL_REPEATED" if is_repeated else "LABEL_OPTIONAL"
            added.label = FieldDescriptorProto.Label.Value(label)
            if kind in _FIELDS:
                added.type_name = f".{_PACKAGE}.{kind}"
            else:
                added.type = FieldDescriptorProto.Type.Value(f"TYPE_{kind.upper()}")
    pool = DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    found = {name: pool.FindMessageTypeByName(f"{_PACKAGE}.{name}") for name in _FIELDS}
    return {name: GetMessageClass(each) for name, each in found.items()}


_CLASSES = _message_classes()


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

    def message(self) -> Message:
        if self.encoded:
            return _CLASSES["Node"].FromString(self.encoded)
        return _CLASSES["Node"](
            input=self.inputs,
            output=self.outputs,
            name=self.name,
            op_type=self.op_type,
            attribute=[_attribute(*each) for each in self.attributes.items()],
        )


@dataclass(frozen=True, slots=True)
class OnnxGraph:
    """Network in the order of computation.

    Attributes:
        nodes: nodes, each after those whose outputs it reads.
        tensors: constants, by name.
        inputs: descriptions, by name.
        opsets: versions of the operator sets.
    """

    nodes: tuple[OnnxNode, ...]
    tensors: Mapping[str, Message]
    inputs: Mapping[str, Message]
    outputs: tuple[str, ...]
    opsets: tuple[Message, ...] = ()

    @classmethod
    def read(cls, file: Path) -> "OnnxGraph":
        """Read a file; raises ModelLoadError."""
        try:
            model = _CLASSES["Model"].FromString(file.read_bytes())
            if not model.HasField("graph"):
                raise ValueError("it has no graph")
            graph = model.graph
            _check_tensors(file, graph.initializer)
            return cls(
                tuple(map(_read_node, graph.node)),
                {each.name: each for each in graph.initializer},
                {each.name: each for each in graph.input},
                tuple(each.name for each in graph.output),
                tuple(model.opset_import),
            )
        except OSError as error:
            raise ModelLoadError(f"{file}: cannot be read: {error}") from error
        except (DecodeError, ValueError) as error:
            raise ModelLoadError(f"{file}: is no network in ONNX's format: {error}") from error

    def encode(self) -> bytes:
        """Return the network as a file's content."""
        graph = _CLASSES["Graph"](
            node=[node.message() for node in self.nodes],
            name="graph",
            initializer=self.tensors.values(),
            input=self.inputs.values(),
            output=[_CLASSES["Value"](name=name) for name in self.outputs],
        )
        opsets = self.opsets or (_CLASSES["Opset"](version=_OPSET),)
        model = _CLASSES["Model"](ir_version=_IR_VERSION, graph=graph, opset_import=opsets)
        encoded: bytes = model.SerializeToString()
        return encoded

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


def value_info(name: str, element_type: int, shape: Collection[int | str] | None = None) -> Message:
    """Describe an input with lengths or names of lengths; ``shape`` ``None``: any shape."""
    described = _CLASSES["TensorType"](elem_type=element_type)
    if shape is not None:
        keys = [("dim_value" if isinstance(each, int) else "dim_param", each) for each in shape]
        described.shape.CopyFrom(_CLASSES["Shape"](dim=[{key: each} for key, each in keys]))
    return _CLASSES["Value"](name=name, type={"tensor_type": described})


def tensor(name: str, values: NDArray[np.float32] | NDArray[np.int64]) -> Message:
    """Return a constant."""
    return _CLASSES["Tensor"](
        dims=values.shape,
        data_type=FLOAT if values.dtype == np.float32 else INT64,
        name=name,
        raw_data=values.tobytes(),
    )


def _check_tensors(file: Path, tensors: Iterable[Message]) -> None:
    """Refuse constants in other files: a network may name any file, and is cut anyway."""
    for each in tensors:
        if each.external_data or each.data_location:
            raise ModelLoadError(f"{file}: keeps '{each.name}' in another file")


def _read_node(message: Message) -> OnnxNode:
    values = {each.name: _value(each) for each in message.attribute}
    return OnnxNode(
        message.op_type,
        tuple(message.input),
        tuple(message.output),
        message.name,
        {name: value for name, value in values.items() if value is not None},
        any(each.HasField("g") or each.graphs for each in message.attribute),
        message.SerializeToString(),
    )


def _value(attribute: Message) -> Attribute | None:
    """Return the value of an attribute of a supported type."""
    if attribute.ints:
        return tuple(attribute.ints)
    if attribute.HasField("s"):
        return str(attribute.s, errors="replace")
    if attribute.HasField("i"):
        return int(attribute.i)
    return float(attribute.f) if attribute.HasField("f") else None


def _attribute(name: str, value: Attribute) -> Message:
    make = _CLASSES["Attribute"]
    if isinstance(value, tuple):
        return make(name=name, ints=value, type=_INTS_ATTRIBUTE)
    if isinstance(value, str):
        return make(name=name, s=value.encode(), type=_STRING_ATTRIBUTE)
    if isinstance(value, float):
        return make(name=name, f=value, type=_FLOAT_ATTRIBUTE)
    return make(name=name, i=value, type=_INT_ATTRIBUTE)
