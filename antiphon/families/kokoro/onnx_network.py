"""The ONNX export in ONNX Runtime, on the CPU.

The graph is changed before it is loaded: durations become an output, drawn noise becomes an input.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antiphon.contracts.types import Samples
from antiphon.errors import ModelLoadError
from antiphon.families.kit.formats.onnx_graph import FLOAT, OnnxGraph, OnnxNode, tensor, value_info
from antiphon.families.kit.formats.onnx_session import ONNX_ERRORS, onnx_session
from antiphon.families.kokoro.checkpoint import PAD_ID

_SPEED_TYPES: dict[str, Any] = {"tensor(float)": np.float32, "tensor(int32)": np.int32}
_IDS = "tensor(int64)"
NOISE_LENGTH = 216_001
"""Numbers in each input of noise, which is repeated as often as it takes."""
_DRAWING = ("RandomNormalLike", "RandomUniformLike")
_CONSTANTS = {"antiphon_zero": 0, "antiphon_one": 1, "antiphon_length": NOISE_LENGTH}


class OnnxNetwork:
    """Speaks sentences; any number of threads may call it at the same time."""

    def __init__(self, file: Path, num_threads: int) -> None:
        """Load the export; ``num_threads`` compute one sentence; raises ModelLoadError."""
        try:
            graph, self._has_durations = with_durations(OnnxGraph.read(file))
            graph, self._noises = with_given_noise(graph)
            self._session = onnx_session(graph.encode(), num_threads)
        except ONNX_ERRORS as error:
            raise ModelLoadError(f"{file}: cannot be loaded: {error}") from error
        inputs = {each.name: each.type for each in self._session.get_inputs()}
        ids = [name for name, kind in inputs.items() if kind == _IDS]
        if len(ids) != 1 or {*inputs} - {*ids, *self._noises} != {"style", "speed"}:
            raise ModelLoadError(f"{file}: has the inputs {', '.join(inputs)}: none of Kokoro.")
        if inputs["speed"] not in _SPEED_TYPES:
            raise ModelLoadError(f"{file}: its 'speed' is a {inputs['speed']}.")
        self._ids, self._speed = ids[0], np.ones(1, _SPEED_TYPES[inputs["speed"]])

    def speak(
        self, ids: tuple[int, ...], style: NDArray[np.float32], seed: tuple[int, int]
    ) -> tuple[Samples, NDArray[np.float32] | None]:
        """Return samples and durations; see `antiphon.families.kokoro.generator.KokoroNetwork`."""
        fed = {
            self._ids: np.array([[PAD_ID, *ids, PAD_ID]], np.int64),
            "style": style,
            "speed": self._speed,
        }
        drawn = np.random.default_rng(seed)
        for name, is_normal in self._noises.items():
            draw = drawn.standard_normal if is_normal else drawn.random
            fed[name] = draw(NOISE_LENGTH, np.float32)
        outputs = self._session.run(None, fed)
        samples: Samples = outputs[0].reshape(-1).astype(np.float32, copy=False)
        return samples, outputs[-1].reshape(-1) if self._has_durations else None


def with_durations(graph: OnnxGraph) -> tuple[OnnxGraph, bool]:
    """Return a network whose last output is durations in frames, and whether it has them.

    They are found where they are rounded, and then limited from below: nothing else is rounded.
    """
    rounded = {name for node in graph.nodes if node.op_type == "Round" for name in node.outputs}
    clips = (node for node in graph.nodes if node.op_type == "Clip")
    found = [node.outputs[0] for node in clips if rounded & set(node.inputs)]
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
