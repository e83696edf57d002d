"""Translation of vLLM-Omni's stage configs into a placement, with a remark on each entry.

Two layouts exist: deploy files (``stages`` with flat entries, ``connectors``, ``base_config``),
and the older ones (``stage_args``, each with ``runtime`` and ``engine_args``, and a ``runtime`` for
all with ``connectors`` and ``edges``). Stages have numbers there, which are those of the pipeline
here, in order.
"""

import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import Any

from antiphon.contracts.family import StageKind, StageSpec
from antiphon.errors import SettingsError
from antiphon.placement.documents import merged, parse

_DTYPES = {"auto": "auto", "bfloat16": "bfloat16", "float32": "float32", "float": "float32"}
_JOINED = ("devices", "replicas", "environment")
_MAX_BASES = 8
_UNTRANSLATED = tomllib.loads(
    Path(__file__).with_name("untranslated.toml").read_text(encoding="utf-8")
)
_WHY_NOT = defaultdict(
    lambda: "unknown here",
    {key: reason for reason, keys in _UNTRANSLATED.items() for key in keys},
)


@dataclass(frozen=True, slots=True)
class Remark:
    """Translation of one entry.

    Attributes:
        entry: location in the file, and its value.
        meaning: translation of the entry, or why there is none.
        is_translated: whether the placement contains the entry.
    """

    entry: str
    meaning: str
    is_translated: bool


@dataclass(slots=True)
class Translation:
    """A placement made of stage configs."""

    values: dict[str, Any] = field(default_factory=dict)
    remarks: list[Remark] = field(default_factory=list)

    def take(self, entry: str, value: Any, meaning: str) -> None:
        """Note that an entry has become something."""
        self.remarks.append(Remark(f"{entry}: {_shown(value)}", meaning, True))

    def drop(self, entry: str, value: Any, why: str) -> None:
        """Note that an entry is nothing here."""
        self.remarks.append(Remark(f"{entry}: {_shown(value)}", why, False))


def translate(path: Path, pipeline: Sequence[StageSpec]) -> Translation:
    """Translate a file for a model; raises SettingsError.

    Args:
        pipeline: the model's stages, first to last.
    """
    values = _read(path)
    translation = Translation()
    stages = _numbered(values, path)
    if too_many := [number for number in stages if number >= len(pipeline)]:
        raise SettingsError(
            f"{path}: there is a stage {too_many[0]}, but this model's stages are"
            f" {', '.join(f'{n} ({spec.name})' for n, spec in enumerate(pipeline))}."
        )
    sections = {
        pipeline[number].name: dict(_section(stage, f"stage {number}", translation))
        for number, stage in sorted(stages.items())
    }
    decoders = [spec.name for spec in pipeline if spec.kind is StageKind.DECODER]
    for name, settings in _connectors(values):
        chunks = dict(_chunks(settings, name, translation))
        for decoder in decoders:
            sections[decoder] = {**sections.get(decoder, {}), **chunks}
    _whole_file(values, translation)
    _join(sections, pipeline, translation)
    translation.values = {"fabric": "process", "stages": {k: v for k, v in sections.items() if v}}
    return translation


def _read(path: Path, depth: int = 0) -> dict[str, Any]:
    try:
        values = parse(path.read_text(encoding="utf-8"), str(path)).values
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: {error}") from error
    base = values.pop("base_config", None)
    if base is None:
        return values
    below = path.parent / str(base)
    if depth >= _MAX_BASES or not below.is_file():
        raise SettingsError(f"{path}: base_config: there is no file '{below}', or too many follow.")
    inherited = _read(below, depth + 1)
    both: dict[str, Any] = merged(inherited, values)
    if "stages" in inherited and "stages" in values:  # lists are merged by stage_id
        by_id = {_stage_id(each, n): each for n, each in enumerate(inherited["stages"])}
        for number, stage in enumerate(values["stages"]):
            key = _stage_id(stage, number)
            by_id[key] = merged(by_id.get(key, {}), stage)
        both["stages"] = list(by_id.values())
    return both


def _numbered(values: Mapping[str, Any], path: Path) -> dict[int, dict[str, Any]]:
    """Return the stages of either layout by number, their entries flat."""
    stages = values.get("stages") or values.get("stage_args")
    if not isinstance(stages, list) or not all(isinstance(each, dict) for each in stages):
        raise SettingsError(f"{path}: no list 'stages' (or 'stage_args'): no stage configs.")
    return {
        _stage_id(each, number): {
            **{key: value for key, value in each.items() if key not in ("runtime", "engine_args")},
            **(each.get("engine_args") or {}),
            **(each.get("runtime") or {}),
        }
        for number, each in enumerate(stages)
    }


def _stage_id(stage: Mapping[str, Any], number: int) -> int:
    stage_id = stage.get("stage_id", number)
    if not isinstance(stage_id, int) or stage_id < 0:
        raise SettingsError(f"stage_id: {stage_id!r} is no number of a stage.")
    return stage_id


def _section(
    stage: Mapping[str, Any], where: str, translation: Translation
) -> Iterator[tuple[str, Any]]:
    parallel = _number(stage.get("tensor_parallel_size") or 1, f"{where}: tensor_parallel_size")
    for key, value in stage.items():
        entry = f"{where}: {key}"
        match key:
            case "stage_id" | "model_stage" | "tensor_parallel_size" if parallel == 1:
                continue
            case "devices":
                devices = _devices(value, parallel, entry)
                translation.take(entry, value, f"devices: {', '.join(devices)}")
                yield "devices", devices
            case "num_replicas":
                translation.take(entry, value, f"replicas: {value}")
                yield "replicas", value
            case "env" if isinstance(value, Mapping):
                translation.take(entry, value, "environment")
                yield "environment", dict(value)
            case "max_num_seqs" | "max_batch_size":
                translation.take(entry, value, f"max_batch: {value}")
                yield "max_batch", value
            case "gpu_memory_utilization":
                translation.take(entry, value, f"memory_fraction: {value}, which is a bound")
                yield "memory_fraction", value
            case "dtype" if value in _DTYPES:
                translation.take(entry, value, f"dtype: {_DTYPES[value]}")
                yield "dtype", _DTYPES[value]
            case _:
                translation.drop(entry, value, _WHY_NOT[key])


def _devices(value: Any, parallel: int, entry: str) -> list[str]:
    names = [part.strip() for part in str(value).split(",") if part.strip()]
    if not names or not all(name.isdigit() or name == "cpu" for name in names):
        raise SettingsError(f"{entry}: '{value}' is no list of GPUs' numbers, as 0 or 0,1.")
    return [name if name == "cpu" else f"cuda:{int(name)}" for name in names[::parallel]]


def _connectors(values: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the name and the settings of each connector, of either layout."""
    runtime = values.get("runtime")
    older = runtime.get("connectors") if isinstance(runtime, Mapping) else None
    found = values.get("connectors") or older
    for name, connector in found.items() if isinstance(found, Mapping) else ():
        if isinstance(connector, Mapping):
            kind = {"name": connector["name"]} if "name" in connector else {}
            yield f"connector {name}", {**kind, **(connector.get("extra") or {})}


def _chunks(
    settings: Mapping[str, Any], where: str, translation: Translation
) -> Iterator[tuple[str, Any]]:
    for key, value in settings.items():
        entry = f"{where}: {key}"
        if key == "initial_codec_chunk_frames" and value == 0:
            translation.drop(entry, value, "0 leaves the first chunk to the server: so it is here")
        elif key in ("codec_chunk_frames", "initial_codec_chunk_frames"):
            translation.take(entry, value, f"{key}: {value}, or the codec's size below it")
            yield key, value
        elif key == "codec_chunk_ramp" and isinstance(value, list) and value:
            ramp = [_number(each, entry) for each in value]
            growth = max([2, *(ceil(b / a) for a, b in pairwise(ramp))])
            translation.take(
                entry, value, f"the first and largest chunk, and codec_chunk_growth: {growth}"
            )
            yield "codec_chunk_growth", growth
            yield "initial_codec_chunk_frames", ramp[0]
            yield "codec_chunk_frames", max(ramp)
        else:
            translation.drop(entry, value, _WHY_NOT[key])


def _whole_file(values: Mapping[str, Any], translation: Translation) -> None:
    handled = {"stages", "stage_args", "connectors"}
    for key, value in values.items():
        if key in handled:
            continue
        if key == "runtime" and isinstance(value, Mapping):
            for inner, inner_value in value.items():
                if inner != "connectors":
                    translation.drop(f"runtime: {inner}", inner_value, _WHY_NOT[inner])
        else:
            translation.drop(key, value, _WHY_NOT[key])


def _join(
    sections: dict[str, dict[str, Any]], pipeline: Sequence[StageSpec], translation: Translation
) -> None:
    """Let a decoder that is placed like the stage before share its engine, as it does here."""
    for before, spec in pairwise(pipeline):
        own, its = sections.get(spec.name), sections.get(before.name)
        if spec.kind is not StageKind.DECODER or own is None or its is None:
            continue
        if any(own.get(key) != its.get(key) for key in _JOINED):
            continue
        fractions = [each["memory_fraction"] for each in (its, own) if "memory_fraction" in each]
        if fractions:
            its["memory_fraction"] = round(min(1.0, sum(fractions)), 4)
        sections[spec.name] = {
            key: value for key, value in own.items() if key.find("codec_chunk") >= 0
        }
        translation.take(
            f"stages {before.name} and {spec.name}",
            "one device",
            "they share an engine and its steps; its memory is that of both, its batch that of"
            f" {before.name}",
        )


def _number(value: Any, entry: str) -> int:
    if not isinstance(value, int) or value < 1:
        raise SettingsError(f"{entry}: {value!r} is no number from 1 on.")
    return value


def _shown(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
