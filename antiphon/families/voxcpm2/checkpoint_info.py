"""Identifies a checkpoint by its configuration and its files' headers; reads no tensor."""

import re
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path

from antiphon.contracts.inspection import Inspection, Table
from antiphon.errors import ModelLoadError
from antiphon.families.voxcpm2.checkpoint_schema import (
    MODEL_OTHERS,
    VAE_OTHERS,
    VAE_STEM,
    model_layout,
    vae_layout,
)
from antiphon.families.voxcpm2.config import VoxCPM2Config, load_config
from antiphon.nn.safetensors_index import (
    STEM,
    Shape,
    TensorHeader,
    layout_problems,
    read_directory,
)

_DTYPES = ("F32", "BF16", "F16")
_PARTS = {
    "base_lm.": "language model",
    "residual_lm.": "residual model",
    "feat_encoder.": "patch encoder",
    "feat_decoder.": "flow",
    "encoder.": "AudioVAE encoder",
    "decoder.": "AudioVAE decoder",
}
_PTH = f"{VAE_STEM}.pth"


def inspect(path: Path) -> Inspection:
    """Return what a checkpoint's directory holds, complete or not."""
    problems: list[str] = []
    config: VoxCPM2Config | None = None
    try:
        config = load_config(path)
    except ModelLoadError as error:
        problems.append(error.message)
    model = _read(path, STEM, MODEL_OTHERS, model_layout(config) if config else None, problems)
    has_pth = (path / _PTH).is_file() and not (path / f"{VAE_STEM}.safetensors").is_file()
    vae: dict[str, TensorHeader] = {}
    if not has_pth:
        layout = vae_layout(config.vae) if config else None
        vae = _read(path, VAE_STEM, VAE_OTHERS, layout, problems)
    if config is not None and find_spec("tokenizers") is not None:
        problems += _tokenizer_problems(path, config)
    headers = [*model.values(), *vae.values()]
    facts: dict[str, str | int | tuple[str, ...]] = {
        **(_told(config) if config else {}),
        "Parameters": sum(header.num_values for header in headers),
        "AudioVAE": f"{_PTH}, which only loading looks into" if has_pth else "safetensors",
    }
    return Inspection(facts=facts, tables=(_components(headers),), problems=tuple(problems))


def _read(
    path: Path,
    stem: str,
    others: str,
    layout: Mapping[str, Shape] | None,
    problems: list[str],
) -> dict[str, TensorHeader]:
    """Return the headers of a part, and say how they differ from its layout."""
    try:
        found = {name: header for name, (_, header) in read_directory(path, stem).items()}
    except ModelLoadError as error:
        problems.append(error.message)
        return {}
    own = {name: each for name, each in found.items() if not re.fullmatch(others, name)}
    if odd := sorted({each.dtype for each in own.values()} - set(_DTYPES)):
        problems.append(f"{path}: tensors are {', '.join(odd)}, not {', '.join(_DTYPES)}")
    if layout is not None:
        shapes = {name: each.shape for name, each in own.items()}
        problems += [f"{path}: tensors {each}" for each in layout_problems(shapes, layout)]
    return own


def _tokenizer_problems(path: Path, config: VoxCPM2Config) -> list[str]:
    from antiphon.families.voxcpm2.tokenizer import load_tokenizer

    try:
        load_tokenizer(path, config.vocab_size)
    except ModelLoadError as error:
        return [error.message]
    return []


def _told(config: VoxCPM2Config) -> dict[str, str | int]:
    """Return what the configuration says of itself."""
    base, flow, rate_hz = config.base, config.flow, config.vae.out_sample_rate
    return {
        "Task": "speech with designed and cloned voices",
        "Language model": f"{base.num_layers} layers of width {base.hidden_size}, then"
        f" {config.residual.num_layers}",
        "Flow": f"{flow.num_layers} layers of width {flow.hidden_size} over"
        f" {config.patch_size} latents of {config.feature_size}",
        "Audio": f"{rate_hz} Hz, {rate_hz / config.samples_per_frame:g} frames a second",
        "Context": f"{config.max_positions} positions of text and frames",
        "Vocabulary": config.vocab_size,
        "A position's cache": f"{config.position_size * 2} bytes in 16 bits",
    }


def _components(headers: Iterable[TensorHeader]) -> Table:
    """Add up what each part takes."""
    parts: dict[str, list[TensorHeader]] = {}
    for header in headers:
        named = (part for start, part in _PARTS.items() if header.name.startswith(start))
        parts.setdefault(next(named, "between them"), []).append(header)
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
