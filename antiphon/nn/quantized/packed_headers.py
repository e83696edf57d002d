"""Weights that several stored tensors describe, found by the names and shapes of these."""

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from antiphon.errors import ModelLoadError
from antiphon.nn.quantized.quantization import Quantization
from antiphon.nn.safetensors_index import DTYPES, Shape, TensorHeader, some

Stored: TypeAlias = tuple[Path, TensorHeader]

WORDS: Final = "I32"
_FLOATS: Final = ("F8_E4M3", "F8_E5M2")
_SCALES: Final = (*DTYPES, "F8_E8M0")
# Tensors of a weight by that which holds its values: those that must be there, and others.
_PARTS: Final = {
    "qweight": (("qzeros", "scales"), ("g_idx",)),
    "weight_packed": (("weight_scale", "weight_shape"), ("weight_zero_point", "weight_g_idx")),
    "weight_scale_inv": (("weight",), ()),
    "weight_scale": (("weight",), ("weight_zero_point",)),
}
# Scales of activations and of keys and values, which are computed in the model's type.
_UNUSED: Final = frozenset(
    f"{part}_{kind}"
    for part in ("input", "output", "k", "v", "q")
    for kind in ("scale", "zero_point")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedHeader(TensorHeader):
    """A weight of several stored tensors; ``dtype`` names its bits and method.

    Attributes:
        parts: stored tensors, each with its file, by the last parts of their names.
        anchor: the part by which the others are found.
        step: outputs and inputs that share a scale, unless a part assigns inputs to groups.
        zero_shift: number added to stored zero points.
        is_awq: whether words hold AWQ's order of outputs, or GPTQ's of inputs.
    """

    parts: Mapping[str, Stored]
    anchor: str
    bits: int
    step: tuple[int, int]
    zero_shift: int = 0
    is_awq: bool = False

    @property
    def is_readable(self) -> bool:
        """Whether the tensor can be converted to the model's type."""
        return True


def with_packed(
    directory: Path, tensors: Mapping[str, Stored], config: Quantization
) -> dict[str, Stored]:
    """Return a directory's tensors, those that describe a weight joined to one `PackedHeader`.

    Raises:
        ModelLoadError: tensors of a weight are missing, or their types or shapes do not match.
    """
    found = {name: each for name, each in tensors.items() if name.rpartition(".")[2] not in _UNUSED}
    for anchor, (needed, others) in _PARTS.items():
        for name in [name for name in found if name.rpartition(".")[2] == anchor]:
            if name not in found:
                continue
            prefix = name.removesuffix(anchor)
            names = {part: prefix + part for part in (anchor, *needed, *others)}
            if missing := [names[part] for part in needed if names[part] not in found]:
                where = f"{directory}: '{name}' lacks"
                raise ModelLoadError(f"{where} {some(missing)}, by which it is unpacked")
            parts = {part: found.pop(each) for part, each in names.items() if each in found}
            weight = _Weight(f"{prefix}weight", parts, config)
            found[weight.name] = weight.stored(anchor)
            # AutoGPTQ wrote biases of zeros for layers that have none.
            bias = found.get(f"{prefix}bias")
            if config.method == "GPTQ" and bias is not None and not any(_bytes(*bias)):
                del found[f"{prefix}bias"]
    return found


class _Weight:
    """Tensors of one weight, of which sizes are derived."""

    def __init__(self, name: str, parts: Mapping[str, Stored], config: Quantization) -> None:
        self.name = name
        self._parts = parts
        self._config = config

    def stored(self, anchor: str) -> Stored:
        bits, shape, step = {
            "qweight": self._of_awq if self._config.method == "AWQ" else self._of_gptq,
            "weight_packed": self._of_words,
        }.get(anchor, self._of_values)()
        file, _ = self._parts[anchor]
        kind = self._header("weight").dtype[:2] if "weight" in self._parts else "int"
        number = "FP8" if kind == "F8" else f"int{bits}"
        return file, PackedHeader(
            name=self.name,
            dtype=number if number == self._config.method else f"{number} ({self._config.method})",
            shape=shape,
            num_bytes=sum(header.num_bytes for _, header in self._parts.values()),
            start=0,
            parts=self._parts,
            anchor=anchor,
            bits=bits,
            step=step,
            zero_shift=self._config.zero_shift,
            is_awq=self._config.method == "AWQ",
        )

    def _of_awq(self) -> tuple[int, Shape, tuple[int, int]]:
        """``qweight`` is ``[inputs, outputs / 8]``, a scale's row a group of inputs."""
        self._expect("qweight", (WORDS,), 2)
        num_inputs, words = self._header("qweight").shape
        return 4, (words * 8, num_inputs), self._grouped(words * 8, num_inputs, 8)

    def _of_gptq(self) -> tuple[int, Shape, tuple[int, int]]:
        """``qweight`` is ``[inputs * bits / 32, outputs]``, a scale's row a group of inputs."""
        self._expect("qweight", (WORDS,), 2)
        words, num_outputs = self._header("qweight").shape
        bits = self._config.bits or 4
        num_inputs = words * 32 // bits
        if "g_idx" in self._parts:
            self._expect("g_idx", (WORDS,), shape=(num_inputs,))
        return bits, (num_outputs, num_inputs), self._grouped(num_outputs, num_inputs, 32 // bits)

    def _grouped(self, num_outputs: int, num_inputs: int, in_word: int) -> tuple[int, int]:
        """Check the groups of AWQ or GPTQ, and return the outputs and inputs of one."""
        self._expect("scales", _SCALES, 2)
        num_groups = self._header("scales").shape[0]
        size = num_inputs // max(1, num_groups)
        expected = self._config.group_size
        if size * num_groups != num_inputs or expected not in (None, size, -1):
            raise self._error("scales", f"has {num_groups} groups of {num_inputs} inputs")
        if expected == -1 and num_groups != 1:
            raise self._error("scales", f"has {num_groups} groups, but 'group_size' is -1")
        self._expect("scales", _SCALES, shape=(num_groups, num_outputs))
        self._expect("qzeros", (WORDS,), shape=(num_groups, num_outputs // in_word))
        return 1, size

    def _of_words(self) -> tuple[int, Shape, tuple[int, int]]:
        """``weight_packed`` is ``[outputs, inputs * bits / 32]``; shape and scale are beside it."""
        self._expect("weight_packed", (WORDS,), 2)
        self._expect("weight_shape", ("I64", WORDS), shape=(2,))
        file, header = self._parts["weight_shape"]
        pair = struct.Struct("<2q" if header.dtype == "I64" else "<2i")
        if header.num_bytes != pair.size:
            raise self._error("weight_shape", f"has {header.num_bytes} bytes, not {pair.size}")
        shape = pair.unpack(_bytes(file, header))
        num_outputs, words = self._header("weight_packed").shape
        by_bits = {bits: -(-shape[1] * bits // 32) for bits in (4, 8)}
        bits = next((bits for bits, size in by_bits.items() if size == words), 0)
        if shape[0] != num_outputs or not bits:
            held, (rows, columns) = [num_outputs, words], shape
            message = f"is {held} for {rows} x {columns} values, not of 4 or 8 bits"
            raise self._error("weight_packed", message)
        step = self._steps(shape)
        if "weight_zero_point" in self._parts:
            num_groups = self._header("weight_scale").shape[-1]
            zeros = (-(-num_outputs * bits // 32), num_groups)
            self._expect("weight_zero_point", (WORDS,), shape=zeros)
        if "weight_g_idx" in self._parts:
            self._expect("weight_g_idx", (WORDS, "I64"), shape=(shape[1],))
        return bits, shape, step

    def _of_values(self) -> tuple[int, Shape, tuple[int, int]]:
        """``weight`` has the weight's own shape; its scale is beside it."""
        self._expect("weight", (*_FLOATS, "I8"), 2)
        shape = self._header("weight").shape
        step = self._steps(shape)
        if "weight_zero_point" in self._parts:
            scale = self._header("weight_scale").shape
            self._expect("weight_zero_point", ("I8", *_SCALES), shape=scale)
        return 8, shape, step

    def _steps(self, shape: Shape) -> tuple[int, int]:
        """Return the outputs and inputs that share a scale: all, a row, a group or a block."""
        name = "weight_scale_inv" if "weight_scale_inv" in self._parts else "weight_scale"
        self._expect(name, _SCALES)
        scale = self._header(name)
        rows, columns = (*scale.shape, 1, 1)[:2] if len(scale.shape) < 3 else (0, 0)
        if self._config.block is not None and (rows, columns) == tuple(
            -(-size // step) for size, step in zip(shape, self._config.block, strict=True)
        ):
            return self._config.block
        if rows not in (1, shape[0]) or not columns or shape[1] % columns:
            raise self._error(name, f"is {list(scale.shape)} for a weight of {list(shape)}")
        return shape[0] // rows, shape[1] // columns

    def _header(self, part: str) -> TensorHeader:
        return self._parts[part][1]

    def _expect(
        self,
        part: str,
        dtypes: Iterable[str],
        num_dimensions: int | None = None,
        shape: Shape | None = None,
    ) -> None:
        header = self._header(part)
        if header.dtype not in dtypes:
            raise self._error(part, f"is {header.dtype}, not {' or '.join(dtypes)}")
        if shape is not None and header.shape != shape:
            raise self._error(part, f"is {list(header.shape)}, not {list(shape)}")
        if num_dimensions not in (None, len(header.shape)):
            raise self._error(part, f"is {list(header.shape)}, which is no matrix")

    def _error(self, part: str, message: str) -> ModelLoadError:
        file, header = self._parts[part]
        return ModelLoadError(f"{file}: '{header.name}' {message}")


def _bytes(file: Path, header: TensorHeader) -> bytes:
    try:
        with file.open("rb") as stream:
            stream.seek(header.start)
            return stream.read(header.num_bytes)
    except OSError as error:
        raise ModelLoadError(f"{file}: cannot be read: {error.strerror}") from error
