"""Reads a checkpoint's JSON files with types; every error names the file and the key.

Quantized checkpoints are refused, by the marks that tools leave in their configuration.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeVar, get_type_hints

from antiphon.errors import ModelLoadError

T = TypeVar("T")

UNPACKED_METHODS: Final = ("AWQ", "GPTQ", "FP8", "compressed-tensors")
"""Methods whose weights `antiphon.nn.quantized` unpacks."""
_METHODS: Final = ("AWQ", "GPTQ", "FP8", "MXFP4", "GGUF", "HQQ", "ModelOpt")
_TITLES: Final = {method.lower(): method for method in _METHODS}
_FILES: Final[Mapping[str, str]] = {
    "quantize_config.json": "GPTQ",
    "hf_quant_config.json": "ModelOpt",
}
_KEYS: Final = ("quantization_config", "compression_config", "quantization")
_MLX_KEYS: Final = ("bits", "group_size")


def read_json_object(file: Path) -> dict[str, Any]:
    """Return the contents of a file; raises ModelLoadError."""
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelLoadError(f"{file}: cannot be read: {error}") from error
    if not isinstance(values, dict):
        raise ModelLoadError(f"{file}: must hold a JSON object")
    return values


@dataclass(frozen=True, slots=True)
class ConfigSection:
    """One JSON object of a file.

    Keys that are not read are ignored: published files carry many that have no effect.

    Attributes:
        prefix: dotted path of this object inside the file, ``""`` at the top.
    """

    file: Path
    prefix: str
    values: Mapping[str, Any]

    @classmethod
    def read(cls, file: Path, *, unpacks: bool = False) -> "ConfigSection":
        """Read a whole file; raises ModelLoadError.

        Args:
            unpacks: whether the family loads weights of `UNPACKED_METHODS`.
        """
        values = read_json_object(file)
        method = quantization_of(file, values)
        if method and not (unpacks and method in UNPACKED_METHODS):
            raise quantized_error(file, method)
        return cls(file, "", values)

    def build(
        self,
        kind: type[T],
        keys: Mapping[str, str] = MappingProxyType({}),
        defaults: Mapping[str, Any] = MappingProxyType({}),
        **given: Any,
    ) -> T:
        """Return a dataclass whose fields are read, each by its type, from keys of their names.

        Fields of other types than numbers, strings, booleans and lists of whole numbers keep their
        defaults.

        Args:
            kind: the dataclass; a field's default is that of a missing key.
            keys: Keys of fields that have other names in the file.
            defaults: Values of missing keys, before those of the fields.
            given: values of fields that are not read.
        """
        types = get_type_hints(kind)
        readers: dict[Any, Callable[[str, Any], Any]] = {
            int: self.integer,
            float: self.number,
            bool: self.boolean,
            str: self.text,
            tuple[int, ...]: self.integers,
        }
        values = dict(given)
        for field in fields(kind):  # type: ignore[arg-type]
            read = readers.get(types[field.name])
            if field.name not in given and read is not None:
                default = None if field.default is MISSING else field.default
                default = defaults.get(field.name, default)
                values[field.name] = read(keys.get(field.name, field.name), default)
        return kind(**values)

    def integer(self, key: str, default: int | None = None) -> int:
        """Return a whole number, not negative."""
        value = self._value(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise self.error(key, f"must be a whole number, not negative, but is {value!r}")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        value = self._value(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(key, f"must be a number, but is {value!r}")
        if not math.isfinite(value):  # Python reads NaN and Infinity, though JSON has neither
            raise self.error(key, f"must be a finite number, but is {value!r}")
        return float(value)

    def boolean(self, key: str, default: bool | None = None) -> bool:
        return self._typed(key, bool, "true or false", default)

    def text(self, key: str, default: str | None = None) -> str:
        return self._typed(key, str, "a string", default)

    def integers(self, key: str, default: tuple[int, ...] | None = None) -> tuple[int, ...]:
        """Return a list of whole numbers."""
        values = self._typed(key, list, "a list", None if default is None else list(default))
        if not all(isinstance(value, int) and not isinstance(value, bool) for value in values):
            raise self.error(key, f"must be a list of whole numbers, but is {values!r}")
        return tuple(values)

    def ids(self, key: str, default: Mapping[str, int] | None = None) -> Mapping[str, int]:
        """Return an object whose values are whole numbers; its keys in lower case."""
        section = self.section(key, default)
        return MappingProxyType({name.lower(): section.integer(name) for name in section.values})

    def section(self, key: str, default: Mapping[str, Any] | None = None) -> "ConfigSection":
        """Return the object below a key."""
        default = None if default is None else dict(default)
        values = self._typed(key, dict, "an object", default)
        return ConfigSection(self.file, self._path(key), values)

    def rope(self, default_theta: float = 10000.0) -> "ConfigSection":
        """Return the parameters of the rotary embedding, from each of the places they can be in.

        Precedence is that of transformers: ``rope_scaling``, then ``rope_parameters``, then the
        keys beside these. ``rope_type`` and ``rope_theta`` are always set.
        """
        found = self.section("rope_scaling", {})
        if not found.values:
            found = self.section("rope_parameters", {})
        if "full_attention" in found.values:  # one object for each type of layer
            found = found.section("full_attention")
        share, original = "partial_rotary_factor", "original_max_position_embeddings"
        values = {share: self.values.get(share), **found.values}
        values[original] = self.values.get(original, values.get(original))
        values["rope_theta"] = found.number("rope_theta", self.number("rope_theta", default_theta))
        kind = found.text("rope_type", found.text("type", "default"))
        # Axes of a multimodal embedding are equal for text: it is the ordinary one.
        values["rope_type"] = "default" if kind == "mrope" else kind
        return ConfigSection(self.file, found.prefix, values)

    def expect(self, key: str, *allowed: Any, default: Any = None) -> None:
        """Refuse a value of a key that is not implemented; raises ModelLoadError.

        A missing key, or null, counts as ``default``.
        """
        value = self.values.get(key)
        value = default if value is None else value
        if value not in allowed:
            names = " or ".join(json.dumps(each) for each in allowed)
            raise self.error(key, f"is {value!r}; only {names} is supported")

    def error(self, key: str, message: str) -> ModelLoadError:
        return ModelLoadError(f"{self.file}: '{self._path(key)}' {message}")

    def _path(self, key: str) -> str:
        return f"{self.prefix}.{key}" if self.prefix else key

    def _value(self, key: str, default: Any) -> Any:
        value = self.values.get(key)
        if value is not None:
            return value
        if default is None:
            raise self.error(key, "is missing")
        return default

    def _typed(self, key: str, kind: type[T], name: str, default: T | None) -> T:
        value = self._value(key, default)
        if not isinstance(value, kind):
            raise self.error(key, f"must be {name}, but is {value!r}")
        return value


def quantized_error(where: Path, method: str) -> ModelLoadError:
    """Return the error of a checkpoint that a tool has quantized."""
    return ModelLoadError(
        f"{where}: {method} weights are not supported. Use the checkpoint that this one was"
        " quantized from, with weights in BF16, F16 or F32; on a CPU, some families make int8"
        " weights of it with --quantize int8."
    )


def quantization_of(file: Path, values: Mapping[str, Any]) -> str | None:
    """Return the method that a checkpoint was quantized with, or ``None`` for plain weights.

    Args:
        file: a configuration file; files beside it may name the method as well.
        values: its content, of which all levels are searched.
    """
    if file.name != "config.json":
        return None
    for _, found in quantization_marks(values):
        method = found.get("quant_method") or found.get("quant_algo")
        if method is None and any(key.startswith("load_in_") for key in found):
            method = "bitsandbytes"
        if method is None:
            method = "MLX" if all(key in found for key in _MLX_KEYS) else "Quantized"
        return _TITLES.get(str(method).lower(), str(method))
    return next((title for name, title in _FILES.items() if (file.parent / name).is_file()), None)


def quantization_marks(
    values: Mapping[str, Any], prefix: str = ""
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield path and content of objects that describe a quantization, the outermost first."""
    for key in _KEYS:
        found = values.get(key)
        # Codecs have a "quantization" of their own: MLX's holds bits and a group size.
        is_mlx = isinstance(found, dict) and all(each in found for each in _MLX_KEYS)
        if isinstance(found, dict) and found and (key != "quantization" or is_mlx):
            yield prefix + key, found
    for key, value in values.items():
        if isinstance(value, dict):
            yield from quantization_marks(value, f"{prefix}{key}.")
