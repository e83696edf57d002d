"""Layout of a language model's tensors by its configuration, and inspection of a checkpoint."""

import re
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from antiphon.contracts.family import Product
from antiphon.contracts.inspection import Inspection, Table
from antiphon.families.causal_lm.config import CausalLMConfig, load_config
from antiphon.families.causal_lm.omni.checkpoint import PARTS, inspect_voice
from antiphon.families.kit.checkpoint import Facts, Findings, components, num_parameters
from antiphon.families.kit.layouts import Layout, gated_mlp, head_norms, transformer
from antiphon.nn.quantized.directory import read_directory
from antiphon.nn.safetensors_index import TensorHeader, WeightsPart, tied_problems, without


def inspect(path: Path) -> Inspection:
    """Return the contents of a checkpoint's directory, complete or not."""
    found = Findings.of(path)
    tensors = {} if found.is_drawn else found.attempt(lambda: read_directory(path)) or {}
    headers = {name: header for name, (_, header) in tensors.items()}
    config = found.attempt(lambda: load_config(path))
    voice: Facts | None = None
    if config is not None:
        if headers:
            untied = found.attempt(lambda: tied_problems(tensors, tied(config))) or ()
            found.problems += [f"{path}: tensors: {each}" for each in untied]
            part = model_part(path, config)
            found.check_layout(path, headers, part.layout, part.others)
            found.check_dtypes(path, without(part.others, headers).values())
        if find_spec("tokenizers") and find_spec("jinja2"):
            _check_text(found, path, config)
        if headers or found.is_drawn:
            voice = inspect_voice(path, headers, found)
    facts = {
        **(_facts(config) if config else {}),
        **(voice or {}),
        "Parameters": num_parameters(headers.values()),
    }
    return found.inspection(facts, _components(config, headers, has_voice=voice is not None))


def _facts(config: CausalLMConfig) -> Facts:
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


def _check_text(found: Findings, path: Path, config: CausalLMConfig) -> None:
    from antiphon.families.causal_lm.chat_template import load_chat_markup
    from antiphon.families.causal_lm.tokenizer import load_tokenizer

    found.attempt(lambda: load_tokenizer(path).eos_ids(config.eos_ids))
    found.attempt(lambda: load_chat_markup(path))


def _components(
    config: CausalLMConfig | None, headers: Mapping[str, TensorHeader], *, has_voice: bool
) -> Table:
    """Add up the sizes of the language model and of the other parts."""
    beside = re.compile(_others(config) if config else r"(?!)")

    def part_of(name: str) -> str:
        if beside.fullmatch(name) is None:
            return "language model"
        part = name.partition(".")[0]
        return part if has_voice and part in PARTS else "not read"

    return components((part_of(name), header) for name, header in headers.items())


def model_part(path: Path, config: CausalLMConfig) -> WeightsPart:
    """Return the language model in a checkpoint's directory."""
    return WeightsPart(directory=path, layout=layout_of(config), others=_others(config))


def _others(config: CausalLMConfig) -> str:
    """Return a regular expression for names of tensors that are not read.

    Old files repeat rotary frequencies of the configuration, and some repeat a tied head.
    """
    names = [r".*\.rotary_emb\.inv_freq"]
    if config.is_tied:
        names.append(rf"{config.prefix}lm_head\.weight")
    if config.others:
        names.append(config.others)
    return "|".join(f"(?:{name})" for name in names)


def tied(config: CausalLMConfig) -> dict[str, str]:
    """Return the head and the embedding that replaces it, if the head is tied."""
    head, embedding = f"{config.prefix}lm_head.weight", f"{config.prefix}model.embed_tokens.weight"
    return {head: embedding} if config.is_tied else {}


def layout_of(config: CausalLMConfig) -> Layout:
    """Return the layout of the checkpoint's files, without tensors that are not read."""
    sizes, prefix = config.transformer, config.prefix
    width = sizes.hidden_size
    layout: Layout = {f"{prefix}model.embed_tokens.weight": (config.vocab_size, width)}
    if not config.is_tied:
        layout[f"{prefix}lm_head.weight"] = (config.vocab_size, width)
    more = [gated_mlp(sizes, has_bias=config.has_mlp_bias)]
    if config.has_head_norms:
        more.append(head_norms(sizes))
    return layout | transformer(f"{prefix}model", sizes, "".join(config.biased), *more)


def frame_products(path: Path) -> list[Product]:
    """Return the matrix products of one token, in order; products that share an input are one.

    A token reads one row of the embedding, unless the head is tied to it.
    """
    config = load_config(path)
    head = Product("head", config.vocab_size, config.transformer.hidden_size)
    return [*config.transformer.products(""), head]
