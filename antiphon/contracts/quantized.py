"""Refusal of quantized checkpoints, by the marks that tools leave in their configuration."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

_TITLES: Final[Mapping[str, str]] = {
    "awq": "AWQ",
    "gptq": "GPTQ",
    "fp8": "FP8",
    "mxfp4": "MXFP4",
    "gguf": "GGUF",
    "hqq": "HQQ",
    "modelopt": "ModelOpt",
}
_FILES: Final[Mapping[str, str]] = {
    "quantize_config.json": "GPTQ",
    "hf_quant_config.json": "ModelOpt",
}
_KEYS: Final = ("quantization_config", "compression_config", "quantization")
_MLX_KEYS: Final = ("bits", "group_size")


def quantization_of(file: Path, values: Mapping[str, Any]) -> str | None:
    """Return the method that a checkpoint was quantized with, or ``None`` for plain weights.

    Args:
        file: a configuration file; files beside it may name the method as well.
        values: its content, of which all levels are searched.
    """
    if file.name != "config.json":
        return None
    for found in _marks(values):
        method = found.get("quant_method") or found.get("quant_algo")
        if method is None and any(key.startswith("load_in_") for key in found):
            method = "bitsandbytes"
        if method is None:
            method = "MLX" if all(key in found for key in _MLX_KEYS) else "Quantized"
        return _TITLES.get(str(method).lower(), str(method))
    return next((title for name, title in _FILES.items() if (file.parent / name).is_file()), None)


def _marks(values: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the objects that describe a quantization, from the outermost level inwards."""
    for key in _KEYS:
        found = values.get(key)
        # Codecs have a "quantization" of their own: MLX's holds bits and a group size.
        is_mlx = isinstance(found, dict) and all(each in found for each in _MLX_KEYS)
        if isinstance(found, dict) and found and (key != "quantization" or is_mlx):
            yield found
    for value in values.values():
        if isinstance(value, dict):
            yield from _marks(value)
