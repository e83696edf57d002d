"""Identifies a checkpoint by its configuration and its files' headers, without torch."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from antiphon.contracts.inspection import Inspection, Table
from antiphon.errors import ModelLoadError
from antiphon.families.qwen3_tts.checkpoint_schema import Layout, codec_layout, main_layout
from antiphon.families.qwen3_tts.config import CODEC_DIRECTORY, CheckpointTask, Qwen3TTSConfig
from antiphon.families.qwen3_tts.config_reader import load_config
from antiphon.families.qwen3_tts.voices import capabilities_of
from antiphon.nn.safetensors_index import (
    Shape,
    TensorHeader,
    layout_problems,
    read_tensor_headers,
    some,
    tensor_files,
)

_TASKS = {
    CheckpointTask.CUSTOM_VOICE: "built-in voices",
    CheckpointTask.VOICE_DESIGN: "a voice from a description",
    CheckpointTask.BASE: "a voice from a recording",
}
_SIZES = {"0b6": "0.6B", "1b7": "1.7B"}
_MAIN_PARTS = (  # the first match decides
    ("talker.code_predictor.", "predictor"),
    ("talker.model.text_embedding.", "text embedding"),
    ("talker.", "talker"),
    ("speaker_encoder.", "speaker encoder"),
)
_CODEC_PARTS = (("decoder.", "codec decoder"), ("encoder.", "codec encoder"))
_DTYPES = ("F32", "BF16", "F16")


@dataclass(slots=True)
class _Found:
    """What is known so far, and what is wrong."""

    tensors: list[tuple[str, TensorHeader]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def inspect(path: Path) -> Inspection:
    """Return what a checkpoint's directory holds, complete or not."""
    found = _Found()
    config: Qwen3TTSConfig | None = None
    try:
        config = load_config(path)
    except ModelLoadError as error:
        found.problems.append(error.message)
    _read(found, path, _MAIN_PARTS, main_layout(config) if config else None)
    _read(found, path / CODEC_DIRECTORY, _CODEC_PARTS, codec_layout(config) if config else None)
    tokenizer = _tokenizer(found, path)
    facts = {
        **(_told(config) if config else {}),
        "Parameters": sum(tensor.num_values for _, tensor in found.tensors),
        "Tokenizer": tokenizer,
    }
    tables = [_components(found), *([_voices(config)] if config else []), _files(path)]
    return Inspection(facts=facts, tables=tuple(tables), problems=tuple(found.problems))


def _read(
    found: _Found, directory: Path, parts: Iterable[tuple[str, str]], layout: Layout | None
) -> None:
    """Read the headers of a directory's files and compare them with the layout."""
    shapes: dict[str, Shape] = {}
    try:
        files = tensor_files(directory)
    except ModelLoadError as error:
        found.problems.append(error.message)
        return
    num_problems = len(found.problems)
    for file in files:
        try:
            headers = read_tensor_headers(file)
        except ModelLoadError as error:
            found.problems.append(error.message)
            continue
        if twice := shapes.keys() & {header.name for header in headers}:
            found.problems.append(f"{file}: another file holds {some(twice)} too")
        if odd := {header.dtype for header in headers} - set(_DTYPES):
            found.problems.append(f"{file}: tensors are {some(odd)}, not {', '.join(_DTYPES)}")
        for header in headers:
            shapes[header.name] = header.shape
            part = next((part for start, part in parts if header.name.startswith(start)), "other")
            found.tensors.append((part, header))
    if layout is not None and len(found.problems) == num_problems:  # else it would say it again
        differences = layout_problems(shapes, layout)
        found.problems += [f"{directory}: tensors {difference}" for difference in differences]


def _told(config: Qwen3TTSConfig) -> dict[str, str | tuple[str, ...]]:
    """Return what the configuration says of itself."""
    names = config.selectable_languages
    return {
        "Task": f"{config.task}: {_TASKS[config.task]}",
        "Size": _SIZES.get(config.model_size, config.model_size),
        "Languages": names,
        "Dialects": tuple(name for name in config.languages if name not in names),
        "Instructions": "yes" if config.takes_instructions else "no",
        "Audio": f"{config.codec.sample_rate_hz} Hz,"
        f" {config.codec.sample_rate_hz / config.codec.samples_per_frame:g} frames a second"
        f" of {config.codec.num_quantizers} codes",
    }


def _components(found: _Found) -> Table:
    """Add up what each part of the model takes."""
    parts: dict[str, list[TensorHeader]] = {}
    for part, header in found.tensors:
        parts.setdefault(part, []).append(header)
    rows = tuple(
        (
            part,
            sum(header.num_values for header in headers),
            sum(header.num_bytes for header in headers),
            ", ".join(sorted({header.dtype for header in headers})),
        )
        for part, headers in parts.items()
    )
    columns = ("Component", "Parameters", "Bytes", "Type")
    return Table(title="Components", columns=columns, rows=rows)


def _voices(config: Qwen3TTSConfig) -> Table:
    rows = tuple(
        (voice.id, config.dialects.get(voice.id, "any language"), voice.description or "")
        for voice in capabilities_of(config).voices
    )
    return Table(title="Voices", columns=("Voice", "Speaks", "Description"), rows=rows)


def _files(path: Path) -> Table:
    files = sorted(file for file in path.rglob("*") if file.is_file())
    rows = tuple((file.relative_to(path).as_posix(), file.stat().st_size) for file in files)
    return Table(title="Files", columns=("File", "Bytes"), rows=rows)


def _tokenizer(found: _Found, path: Path) -> str:
    """Say where the vocabulary is and how large; check it if that can be done here."""
    is_split = (path / "vocab.json").is_file()
    file = path / ("vocab.json" if is_split else "tokenizer.json")
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        size = len(content if is_split else content["model"]["vocab"])
        if find_spec("tokenizers") is not None:
            from antiphon.families.qwen3_tts.tokenizer import load_tokenizer

            load_tokenizer(path)
    except ModelLoadError as error:
        found.problems.append(error.message)
        return "broken"
    except (OSError, ValueError, KeyError, TypeError) as error:
        found.problems.append(f"{file}: cannot be read: {error}")
        return "none"
    return f"{file.name}{' and merges.txt' if is_split else ''}, {size} tokens"
