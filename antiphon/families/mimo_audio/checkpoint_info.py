"""Identifies a checkpoint by its configurations and its files' headers; reads no tensor."""

from importlib.util import find_spec
from pathlib import Path

from antiphon.contracts.inspection import Inspection, Table
from antiphon.errors import ModelLoadError
from antiphon.families.mimo_audio.checkpoint_schema import layout_of, tokenizer_layout_of
from antiphon.families.mimo_audio.config import AudioTokenizerConfig, MiMoAudioConfig
from antiphon.families.mimo_audio.config_reader import load_config, load_tokenizer_config
from antiphon.families.mimo_audio.tokenizer_path import tokenizer_path
from antiphon.nn.safetensors_index import Shape, TensorHeader, layout_problems, read_directory

_DTYPES = ("F32", "BF16", "F16")
_PARTS = {
    "local_transformer": "patch decoder",
    "hidden_states_downcast": "patch decoder",
    "speech_embeddings_to_local": "patch decoder",
    "input_local_transformer": "patch encoder",
    "speech_embeddings": "patch encoder",
    "speech_group_downcast": "patch encoder",
    "encoder": "audio tokenizer, encoder",
    "decoder": "audio tokenizer, decoder",
}
"""By what the names of tensors begin with, the first that fits; all else is the language model."""


def inspect(path: Path) -> Inspection:
    """Return what a checkpoint's directory holds, complete or not."""
    problems: list[str] = []
    config: MiMoAudioConfig | None = None
    audio: AudioTokenizerConfig | None = None
    headers: dict[str, TensorHeader] = {}
    beside: Path | None = None
    try:
        config = load_config(path)
    except ModelLoadError as error:
        problems.append(error.message)
    headers |= _headers(path, layout_of(config) if config else None, problems)
    try:
        beside = tokenizer_path(path)
        audio = None if config is None else load_tokenizer_config(beside, config)
    except ModelLoadError as error:
        problems.append(error.message)
    if beside is not None:
        layout = tokenizer_layout_of(audio) if audio else None
        headers |= _headers(beside, layout, problems)
    if config is not None and find_spec("tokenizers"):
        from antiphon.families.mimo_audio.text_tokenizer import load_text_tokenizer

        try:
            load_text_tokenizer(path, config.vocab_size)
        except ModelLoadError as error:
            problems.append(error.message)
    facts: dict[str, str | int | tuple[str, ...]] = {
        "Task": "speech from text, in the style of instructions",
        **({} if config is None else _told(config)),
        **({} if audio is None else _told_of_audio(audio)),
        **({} if beside is None else {"Audio tokenizer": str(beside)}),
        "Parameters": sum(header.num_values for header in headers.values()),
    }
    return Inspection(facts=facts, tables=(_components(headers),), problems=tuple(problems))


def _told(config: MiMoAudioConfig) -> dict[str, str | int | tuple[str, ...]]:
    sizes, decoder = config.transformer, config.decoder
    return {
        "Language model": f"{sizes.num_layers} layers of width {sizes.hidden_size},"
        f" {sizes.num_heads} heads of {sizes.head_dim} on {sizes.num_kv_heads}",
        "Patch decoder": f"{decoder.num_layers} layers of width {decoder.hidden_size},"
        f" {decoder.max_positions} steps a group",
        "Patch encoder": f"{config.encoder.num_layers} layers of width"
        f" {config.encoder.hidden_size}",
        "Codes": f"{config.num_channels} a frame, {config.group_frames} frames a group",
        "Vocabulary": config.vocab_size,
    }


def _told_of_audio(config: AudioTokenizerConfig) -> dict[str, str | int | tuple[str, ...]]:
    groups_per_s = config.sample_rate_hz / config.samples_per_group
    return {
        "Sample rate": f"{config.sample_rate_hz} Hz",
        "Groups per second": f"{groups_per_s:g}",
    }


def _headers(
    path: Path, layout: dict[str, Shape] | None, problems: list[str]
) -> dict[str, TensorHeader]:
    """Read the headers of a directory, and compare them with its layout if that is known."""
    try:
        headers = {name: header for name, (_, header) in read_directory(path).items()}
    except ModelLoadError as error:
        problems.append(error.message)
        return {}
    if layout is not None:
        found = {name: header.shape for name, header in headers.items()}
        problems += [f"{path}: tensors {each}" for each in layout_problems(found, layout)]
    if odd := sorted({header.dtype for header in headers.values()} - set(_DTYPES)):
        problems.append(f"{path}: tensors are {', '.join(odd)}, not {', '.join(_DTYPES)}")
    return headers


def _components(headers: dict[str, TensorHeader]) -> Table:
    parts: dict[str, list[TensorHeader]] = {}
    for name, header in headers.items():
        part = next((part for start, part in _PARTS.items() if name.startswith(start)), None)
        parts.setdefault(part or "language model", []).append(header)
    rows = tuple(
        (
            part,
            sum(header.num_values for header in found),
            sum(header.num_bytes for header in found),
            ", ".join(sorted({header.dtype for header in found})),
        )
        for part, found in parts.items()
    )
    columns = ("Component", "Parameters", "Bytes", "Type")
    return Table(title="Components", columns=columns, rows=rows)
