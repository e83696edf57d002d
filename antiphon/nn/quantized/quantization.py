"""The quantisation of a checkpoint by its configuration; unsupported layouts are refused."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from antiphon.contracts.config_file import (
    UNPACKED_METHODS,
    ConfigSection,
    quantization_marks,
    quantization_of,
    quantized_error,
    read_json_object,
)
from antiphon.errors import ModelLoadError

_CONFIG, _OLD_GPTQ = "config.json", "quantize_config.json"
_COMPRESSED: Final = (
    *("pack-quantized", "int-quantized", "float-quantized", "naive-quantized"),
    *("mixed-precision", "dense"),
)
_WORD_BITS: Final = (4, 8)


@dataclass(frozen=True, slots=True)
class Quantization:
    """Quantisation of a checkpoint.

    Attributes:
        method: name of the method, such as ``"GPTQ"``.
        bits: bits of a weight; ``None``: the tensors' shapes state it.
        group_size: inputs that share a scale; ``None``: the tensors' shapes state it.
        block: outputs and inputs that share a scale of FP8; ``None``: one scale, or one per output.
        zero_shift: number added to stored zero points.
    """

    method: str
    bits: int | None = None
    group_size: int | None = None
    block: tuple[int, int] | None = None
    zero_shift: int = 0


def read_quantization(directory: Path) -> Quantization | None:
    """Return the quantisation of a directory's tensors, ``None`` if no file describes any.

    Raises:
        ModelLoadError: a file cannot be read, or describes what cannot be unpacked.
    """
    file = directory / _CONFIG
    if not file.is_file():
        return None
    values = read_json_object(file)
    method = quantization_of(file, values)
    if method is None:
        return None
    if method not in UNPACKED_METHODS:
        raise quantized_error(file, method)
    found = [*quantization_marks(values)]
    if not found:  # only old GPTQ has a file of its own
        return _gptq(
            ConfigSection(directory / _OLD_GPTQ, "", read_json_object(directory / _OLD_GPTQ))
        )
    key, described = found[0]
    if other := next((name for name, each in found if each != described), None):
        raise ModelLoadError(f"{file}: '{other}' differs from '{key}'; only one is supported")
    section = ConfigSection(file, key, described)
    if method == "AWQ":
        return _awq(section)
    if method == "GPTQ":
        return _gptq(section)
    return _fp8(section) if method == "FP8" else _compressed(section)


def _awq(section: ConfigSection) -> Quantization:
    section.expect("bits", 4)
    for key in ("version", "format"):
        section.expect(key, "gemm", "GEMM", default="gemm")
    section.expect("zero_point", True, default=True)
    return Quantization("AWQ", 4, _group_size(section))


def _gptq(section: ConfigSection) -> Quantization:
    section.expect("bits", *_WORD_BITS)
    for key in ("checkpoint_format", "format"):
        section.expect(key, "gptq", "gptq_v2", default="gptq")
    section.expect("is_marlin_format", False, default=False)
    is_second = "gptq_v2" in (section.values.get("checkpoint_format"), section.values.get("format"))
    return Quantization(
        "GPTQ", section.integer("bits"), _group_size(section), zero_shift=0 if is_second else 1
    )


def _fp8(section: ConfigSection) -> Quantization:
    return Quantization("FP8", 8, block=_pair(section, "weight_block_size"))


def _compressed(section: ConfigSection) -> Quantization:
    section.expect("format", *_COMPRESSED, default="dense")
    section.section("sparsity_config", {}).expect("format", None, "dense")
    if section.values.get("transform_config"):
        raise section.error("transform_config", "is set; transforms of weights are not supported")
    blocks = set()
    groups = section.section("config_groups", {})
    for name in groups.values:
        group = groups.section(name)
        group.expect("format", *_COMPRESSED, default="dense")
        weights = group.section("weights", {})
        weights.expect("type", "int", "float", default="int")
        is_float = weights.values.get("type") == "float"
        weights.expect("num_bits", *((8,) if is_float else _WORD_BITS), default=8)
        blocks.add(_pair(weights, "block_structure"))
    if len(blocks) > 1:
        raise section.error("config_groups", "has several values of 'block_structure'")
    return Quantization("compressed-tensors", block=blocks.pop() if blocks else None)


def _group_size(section: ConfigSection) -> int | None:
    """Return the inputs of a group; -1 stands for all inputs."""
    value = section.values.get("group_size")
    if value is None or value == -1:
        return value
    return section.integer("group_size")


def _pair(section: ConfigSection, key: str) -> tuple[int, int] | None:
    if section.values.get(key) is None:
        return None
    sizes = section.integers(key)
    if len(sizes) != 2 or min(sizes) < 1:  # outputs and inputs
        raise section.error(key, f"must be two sizes, but is {list(sizes)}")
    return sizes[0], sizes[1]
