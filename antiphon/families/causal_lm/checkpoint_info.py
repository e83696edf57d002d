"""Identifies a checkpoint by its configuration and its files' headers; reads no tensor."""

import re
from importlib.util import find_spec
from pathlib import Path

from antiphon.contracts.inspection import Inspection, Table
from antiphon.errors import ModelLoadError
from antiphon.families.causal_lm.checkpoint_schema import layout_of, others, tied
from antiphon.families.causal_lm.config import CausalLMConfig, load_config
from antiphon.families.causal_lm.omni.checkpoint_info import PARTS, inspect_voice
from antiphon.nn.safetensors_index import (
    TensorHeader,
    layout_problems,
    read_directory,
    tied_problems,
)

_DTYPES = ("F32", "BF16", "F16")


def inspect(path: Path) -> Inspection:
    """Return what a checkpoint's directory holds, complete or not."""
    problems: list[str] = []
    config: CausalLMConfig | None = None
    headers: dict[str, TensorHeader] = {}
    try:
        found = read_directory(path)
        headers = {name: header for name, (_, header) in found.items()}
    except ModelLoadError as error:
        problems.append(error.message)
    try:
        config = load_config(path)
        if headers:
            problems += [f"{path}: tensors: {each}" for each in tied_problems(found, tied(config))]
    except ModelLoadError as error:
        problems.append(error.message)
    if config is not None and headers:
        problems += _tensor_problems(path, config, headers)
    if config is not None and find_spec("tokenizers") and find_spec("jinja2"):
        problems += _text_problems(path, config)
    voice = inspect_voice(path, headers) if config is not None and headers else None
    if voice is not None:
        problems += voice.problems
    facts: dict[str, str | int | tuple[str, ...]] = {
        **(_told(config) if config else {}),
        **(voice.facts if voice else {}),
        "Parameters": sum(header.num_values for header in headers.values()),
    }
    table = _components(config, headers, has_voice=voice is not None)
    return Inspection(facts=facts, tables=(table,), problems=tuple(problems))


def _told(config: CausalLMConfig) -> dict[str, str | int | tuple[str, ...]]:
    """Return what the configuration says of itself."""
    sizes, scaling = config.transformer, config.transformer.rope_scaling
    stretched = "" if scaling is None else f", {type(scaling).__name__.removesuffix('Scaling')}"
    drawn = config.sampling
    return {
        "Task": "chat: text from text",
        "Layout": config.architecture,
        "Layers": f"{sizes.num_layers} of width {sizes.hidden_size}, {sizes.num_heads} heads of"
        f" {sizes.head_dim} on {sizes.num_kv_heads} of keys and values",
        "Context": f"{sizes.max_positions} tokens{stretched.lower()}",
        "Vocabulary": config.vocab_size,
        "Sampling": f"temperature {drawn.temperature:g}, top_p {drawn.top_p:g},"
        f" top_k {drawn.top_k}, repetition_penalty {drawn.repetition_penalty:g}",
        "A token's cache": f"{config.position_size * 2} bytes in 16 bits",
    }


def _tensor_problems(
    path: Path, config: CausalLMConfig, headers: dict[str, TensorHeader]
) -> list[str]:
    beside = re.compile(others(config))
    own = {name: each for name, each in headers.items() if not beside.fullmatch(name)}
    found = {name: each.shape for name, each in own.items()}
    problems = [f"{path}: tensors {each}" for each in layout_problems(found, layout_of(config))]
    if odd := sorted({each.dtype for each in own.values()} - set(_DTYPES)):
        problems.append(f"{path}: tensors are {', '.join(odd)}, not {', '.join(_DTYPES)}")
    return problems


def _text_problems(path: Path, config: CausalLMConfig) -> list[str]:
    """Say what is wrong with what turns conversations into ids."""
    from antiphon.families.causal_lm.chat_template import load_chat_markup
    from antiphon.families.causal_lm.tokenizer import load_tokenizer

    problems = []
    try:
        load_tokenizer(path).eos_ids(config.eos_ids)
    except ModelLoadError as error:
        problems.append(error.message)
    try:
        load_chat_markup(path)
    except ModelLoadError as error:
        problems.append(error.message)
    return problems


def _components(
    config: CausalLMConfig | None, headers: dict[str, TensorHeader], *, has_voice: bool
) -> Table:
    """Add up what the language model takes, and what is beside it."""
    beside = re.compile(others(config) if config else r"(?!)")
    parts: dict[str, list[TensorHeader]] = {}
    for name, header in headers.items():
        part = name.partition(".")[0]
        if beside.fullmatch(name) is None:
            part = "language model"
        elif not (has_voice and part in PARTS):
            part = "not read"
        parts.setdefault(part, []).append(header)
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
