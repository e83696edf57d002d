"""Receptive field of a decoder's sample in frames, computed from its convolutions."""

import math
from dataclasses import dataclass

from antiphon.families.kit.formats.onnx_graph import OnnxGraph, OnnxNode

_POINTWISE = frozenset(
    (
        *("Add", "Cast", "Clip", "Div", "Identity", "LeakyRelu", "Mul", "Relu", "Sigmoid"),
        *("Squeeze", "Sub", "Tanh", "Unsqueeze"),
    )
)
"""Operations whose every value depends on the values of its own place in the sequence."""


@dataclass(frozen=True, slots=True)
class DecoderReach:
    """Receptive field of a decoder's sample.

    Attributes:
        num_frames: frames on each side of the sample's own frame.
    """

    num_frames: int
    samples_per_frame: int


@dataclass(frozen=True, slots=True)
class _Place:
    """A value inside the decoder: how many frames it depends on, and its columns for each frame."""

    reach: float
    rate: int


def reach_of(graph: OnnxGraph, latents: str, output: str) -> DecoderReach | None:
    """Return the reach of the part of a network from its latents to its audio.

    ``None`` if an operation of it may look further than its convolutions do.
    """
    places = {latents: _Place(0.0, 1)}
    for node in graph.needed([output], [latents]):
        sources = [places[name] for name in node.inputs if name in places]
        if not sources:
            continue
        found = _after(node, places, sources)
        if found is None:
            return None
        places[node.outputs[0]] = found
    if output not in places:
        return None
    place = places[output]
    return DecoderReach(math.ceil(place.reach), place.rate)


def _after(node: OnnxNode, places: dict[str, _Place], sources: list[_Place]) -> _Place | None:
    if node.op_type in _POINTWISE:
        if len({source.rate for source in sources}) > 1:
            return None
        return _Place(max(source.reach for source in sources), sources[0].rate)
    if node.op_type not in ("Conv", "ConvTranspose") or node.inputs[0] not in places:
        return None
    before = places[node.inputs[0]]
    kernel, stride, dilation = (
        _only(node, name, default)
        for name, default in (("kernel_shape", 0), ("strides", 1), ("dilations", 1))
    )
    pads = node.attributes.get("pads", (0, 0))
    if not isinstance(pads, tuple) or len(pads) != 2 or len(sources) != 1 or kernel == 0:
        return None
    span = dilation * (kernel - 1)
    if node.op_type == "Conv":
        keeps_length = stride == 1 and sum(pads) == span
        reach = max(pads) / before.rate
        return _Place(before.reach + reach, before.rate) if keeps_length else None
    padding = _only(node, "output_padding", 0)
    keeps_length = span + 1 + padding - sum(pads) == stride and dilation == 1
    reach = max(span - pads[0], pads[0]) / stride / before.rate
    return _Place(before.reach + reach, before.rate * stride) if keeps_length else None


def _only(node: OnnxNode, name: str, default: int) -> int:
    """Return the one number of an attribute; 0 if it has several: it is no sequence's then."""
    value = node.attributes.get(name, (default,))
    return value[0] if isinstance(value, tuple) and len(value) == 1 else 0
