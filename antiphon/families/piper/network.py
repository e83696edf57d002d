"""A VITS network that runs in parts, so that noise follows the seed and audio is streamed.

An exported network is one graph. It is cut before each operation that draws random numbers, which
are inputs from then on, and before its decoder. The decoder is convolutions only: a sample depends
on no more than a few frames around its own, so that frames can be decoded in chunks, with that
many more on each side, and the chunks are what the whole would be.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from antiphon.contracts.types import Samples
from antiphon.errors import ModelLoadError
from antiphon.families.kit.formats.onnx_graph import ELEMENT_TYPES, FLOAT, OnnxGraph, OnnxNode
from antiphon.families.kit.formats.onnx_session import ONNX_ERRORS, onnx_session
from antiphon.families.piper.reach import DecoderReach, reach_of

Values = dict[str, NDArray[Any]]

_DECODER_WEIGHT = "dec.conv_pre.weight"
"""Read by the decoder's first operation, under the name that training gives it."""
_DRAWN = "RandomNormalLike"
_OTHERWISE_RANDOM = (
    *("RandomNormal", "RandomUniform", "RandomUniformLike"),
    *("Multinomial", "Bernoulli"),
)
_INPUTS = ("input", "input_lengths", "scales", "sid")


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of the network, with the names of its inputs and outputs.

    Attributes:
        draws: the operation that draws random numbers between this part and the next.
    """

    session: ort.InferenceSession
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    draws: OnnxNode | None


@dataclass(frozen=True, slots=True)
class SpokenSentence:
    """A sentence before it is decoded.

    Attributes:
        values: inputs of the decoder; the first one has one column per frame.
        durations: frames of each symbol, shape ``[num_symbols]``.
    """

    values: Values
    num_frames: int
    durations: NDArray[np.float32]


class PiperNetwork:
    """One voice's network; it keeps nothing between calls, which may come from any thread."""

    def __init__(self, file: Path, *, has_speakers: bool) -> None:
        """Load it; raises ModelLoadError."""
        graph = OnnxGraph.read(file)
        _check(graph, file, has_speakers=has_speakers)
        self._output = graph.outputs[0]
        first = next((node for node in graph.nodes if _DECODER_WEIGHT in node.inputs), None)
        self._latents = None if first is None else first.inputs[0]
        self._reach: DecoderReach | None = None
        if self._latents is not None:
            self._reach = reach_of(graph, self._latents, self._output)
        if self._reach is None:  # cannot be cut there: whole sentences
            self._latents = None
        self._durations = _durations_of(graph, file)
        *self._parts, self._decoder = self._cut(graph, file)

    @property
    def samples_per_frame(self) -> int | None:
        """Audio of a frame; ``None`` if sentences are decoded whole."""
        return None if self._reach is None else self._reach.samples_per_frame

    def prepare(
        self,
        ids: tuple[int, ...],
        scales: tuple[float, float, float],
        speaker: int | None,
        random: np.random.Generator,
    ) -> SpokenSentence:
        """Compute all of a sentence but its audio.

        Args:
            scales: ``noise_scale``, ``length_scale``, ``noise_w``.
            speaker: number of the speaker, if the voice has several.
        """
        values: Values = {
            "input": np.array([ids], np.int64),
            "input_lengths": np.array([len(ids)], np.int64),
            "scales": np.array(scales, np.float32),
        }
        if speaker is not None:
            values["sid"] = np.array([speaker], np.int64)
        for part in self._parts:
            values |= _run(part, values)
            if part.draws is not None:
                shape = values[part.draws.inputs[0]].shape
                values[part.draws.outputs[0]] = _drawn(part.draws, shape, random)
        durations = values[self._durations].reshape(-1).astype(np.float32)
        given = {name: values[name] for name in self._decoder.inputs}
        num_frames = 0 if self._latents is None else values[self._latents].shape[-1]
        return SpokenSentence(given, num_frames, durations)

    def decode(self, sentence: SpokenSentence, start: int, stop: int) -> Samples:
        """Return the audio of the frames from ``start`` to before ``stop``."""
        assert self._reach is not None, "a sentence of this network is decoded whole"
        assert self._latents is not None
        reach = self._reach
        begin = max(0, start - reach.num_frames)
        end = min(sentence.num_frames, stop + reach.num_frames)
        latents = np.ascontiguousarray(sentence.values[self._latents][..., begin:end])
        audio = self._decoded(sentence.values | {self._latents: latents})
        first = (start - begin) * reach.samples_per_frame
        return audio[first : first + (stop - start) * reach.samples_per_frame]

    def decode_whole(self, sentence: SpokenSentence) -> Samples:
        return self._decoded(sentence.values)

    def _decoded(self, values: Values) -> Samples:
        audio = _run(self._decoder, values)[self._output]
        return np.clip(audio.reshape(-1), -1.0, 1.0).astype(np.float32, copy=False)

    def _cut(self, graph: OnnxGraph, file: Path) -> list[_Part]:
        drawn = [node for node in graph.nodes if node.op_type == _DRAWN]
        cuts: list[tuple[str, OnnxNode | None]] = [(node.inputs[0], node) for node in drawn]
        if self._latents is not None:
            cuts.append((self._latents, None))
        cuts.append((self._output, None))
        random = {node.outputs[0] for node in drawn}
        wanted = self._durations
        done: set[OnnxNode] = set(drawn)
        types = {name: FLOAT for name in random}
        parts = []
        for name, draws in cuts:
            is_last = name == self._output
            nodes = [node for node in graph.needed([name], random) if node not in done]
            done.update(nodes)
            later = [node for node in graph.nodes if node not in done]
            made = {output for node in nodes for output in node.outputs}
            read = {each for node in later for each in node.inputs} | {name, wanted}
            outputs = (self._output,) if is_last else tuple(sorted(made & read))
            needed = {each for node in nodes for each in node.inputs}
            given = {each: kind for each, kind in types.items() if each in needed}
            part = graph.part(nodes, given, outputs)
            session = _session(part, file)
            types |= {each.name: ELEMENT_TYPES[each.type] for each in session.get_outputs()}
            parts.append(_Part(session, tuple(part.inputs), outputs, draws))
        return parts


def _check(graph: OnnxGraph, file: Path, *, has_speakers: bool) -> None:
    wanted = _INPUTS if has_speakers else _INPUTS[:3]
    if set(graph.inputs) != set(wanted) or len(graph.outputs) != 1:
        raise ModelLoadError(
            f"{file}: must take {', '.join(wanted)} and give one output, but takes"
            f" {', '.join(graph.inputs)} and gives {', '.join(graph.outputs)}"
        )
    for node in graph.nodes:
        if node.op_type in _OTHERWISE_RANDOM or node.has_subgraph:
            raise ModelLoadError(f"{file}: the operation {node.op_type} is not supported")


def _durations_of(graph: OnnxGraph, file: Path) -> str:
    """Return the name of the symbols' durations: they alone are rounded up."""
    rounded = [node.outputs[0] for node in graph.nodes if node.op_type == "Ceil"]
    if (count := len(rounded)) != 1:
        message = f"one operation 'Ceil' is expected, which makes durations; there are {count}"
        raise ModelLoadError(f"{file}: {message}")
    return rounded[0]


def _drawn(
    node: OnnxNode, shape: tuple[int, ...], random: np.random.Generator
) -> NDArray[np.float32]:
    mean, scale = (float(node.attributes.get(name, value)) for name, value in _NORMAL.items())  # type: ignore[arg-type]
    drawn: NDArray[np.float32] = random.standard_normal(shape, np.float32)
    return drawn * np.float32(scale) + np.float32(mean)


_NORMAL: Mapping[str, float] = {"mean": 0.0, "scale": 1.0}


def _run(part: _Part, values: Values) -> Values:
    outputs = part.session.run(list(part.outputs), {name: values[name] for name in part.inputs})
    return dict(zip(part.outputs, outputs, strict=True))


def _session(graph: OnnxGraph, file: Path) -> ort.InferenceSession:
    try:
        return onnx_session(graph.encode())
    except ONNX_ERRORS as error:
        raise ModelLoadError(f"{file}: onnxruntime cannot load it: {error}") from error
