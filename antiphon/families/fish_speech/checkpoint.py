"""Layout of both models' tensors, and inspection of a checkpoint.

Names are those of S1's files. S2's files prefix them with ``text_model.model`` and
``audio_decoder``.
"""

import re
from collections.abc import Iterable
from pathlib import Path

from antiphon.contracts.inspection import Inspection, files_table
from antiphon.families.fish_speech.codec_schema import layer_layout
from antiphon.families.fish_speech.config import (
    LICENCE,
    SAMPLE_RATE_HZ,
    SAMPLES_PER_FRAME,
    Biases,
    FishSpeechConfig,
    Layout,
    load_config,
)
from antiphon.families.kit.checkpoint import Findings
from antiphon.families.kit.layouts import affine, repeated
from antiphon.nn.layer_configs import TransformerConfig
from antiphon.nn.safetensors_index import Shape, read_directory, tied_problems

CODEC_FILE, PICKLED_FILE = "codec.pth", "model.pth"
_SLOW, _FAST = "text_model.model.", "audio_decoder."
_SHARED = "codebook_embeddings."  # of the slow model's frames, although stored with the fast one
_UNREAD = r"(?:.*\.)?(?:fast_)?(?:freqs_cis|causal_mask)|audio_(?!decoder\.).*"
_UNREAD_HEADS = r"(?:text_model\.(?:model\.)?)?(?:lm_head|output)\.weight"
_TITLES = {Layout.S2: "Fish Speech S2", Layout.S1: "Fish Speech S1"}


def inspect(path: Path) -> Inspection:
    """Return the contents of a checkpoint's directory, complete or not."""
    found = Findings.of(path)
    config = found.attempt(lambda: load_config(path))
    if config is not None and not found.is_drawn:
        model = config
        found.attempt(lambda: _check_tensors(found, path, model))
    if not found.is_drawn and not (path / CODEC_FILE).is_file():
        found.problems.append(f"{path}: there is no {CODEC_FILE}")
    facts = {"Model": "Fish Speech"} if config is None else _facts(config)
    return found.inspection({**facts, "Weights' licence": LICENCE}, files_table(path))


def _facts(config: FishSpeechConfig) -> dict[str, str | int]:
    slow, fast = config.slow, config.fast
    return {
        "Model": _TITLES[config.layout],
        "Slow model": f"{slow.num_layers} layers of {slow.hidden_size}",
        "Fast model": f"{fast.num_layers} layers of {fast.hidden_size}",
        "Audio": f"{SAMPLE_RATE_HZ} Hz, {SAMPLE_RATE_HZ / SAMPLES_PER_FRAME:.1f} frames a second"
        f" of {config.num_codebooks} codes",
        "Semantic codes": config.tokens.num_semantic,
        "Voices": "from recordings, or drawn by the seed",
    }


def _check_tensors(found: Findings, path: Path, config: FishSpeechConfig) -> None:
    """Compare tensor headers with the configuration; model.pth is only checked when loaded."""
    if (path / PICKLED_FILE).is_file() and not any(path.glob("model*.safetensors*")):
        return
    tensors = read_directory(path)
    headers = {name: header for name, (_, header) in tensors.items()}
    others, layout = unread(config), layout_of(config)
    if any(is_s2_name(name) and not re.fullmatch(others, name) for name in headers):
        layout = {s2_name(name): shape for name, shape in layout.items()}
    found.check_layout(path, headers, layout, others)
    untied = tied_problems(tensors, tied(config, tensors))
    found.problems += [f"{path}: tensors: {each}" for each in untied]


def layout_of(config: FishSpeechConfig) -> dict[str, Shape]:
    """Return the layout of all tensors by S1's names."""
    width, fast_width = config.slow.hidden_size, config.fast.hidden_size
    size = config.codebook_size
    layout: dict[str, Shape] = {
        "embeddings.weight": (config.vocab_size, width),
        "codebook_embeddings.weight": (size * config.num_codebooks, width),
        **_layers("layers", config.slow, config.slow_biases),
        "norm.weight": (width,),
        "fast_embeddings.weight": (size, fast_width),
        **_layers("fast_layers", config.fast, config.fast_biases),
        "fast_norm.weight": (fast_width,),
        "fast_output.weight": (size, fast_width),
    }
    if not config.is_tied:
        layout["output.weight"] = (config.vocab_size, width)
    if config.has_projection:
        layout |= affine("fast_project_in", fast_width, width)
    return layout


def unread(config: FishSpeechConfig) -> str:
    """Return a regular expression of unused tensor names in both namings.

    Old files repeat computed tables, and some repeat a tied head.
    """
    return f"{_UNREAD}|{_UNREAD_HEADS}" if config.is_tied else _UNREAD


def tied(config: FishSpeechConfig, names: Iterable[str]) -> dict[str, str]:
    """Return the stored heads that are replaced by the embedding."""
    embedding = "embeddings.weight"
    return {
        name: s2_name(embedding) if is_s2_name(name) else embedding
        for name in names
        if config.is_tied and re.fullmatch(_UNREAD_HEADS, name)
    }


def s2_name(name: str) -> str:
    """Return the name of a tensor in S2's files."""
    if name.startswith(_SHARED):
        return f"{_FAST}{name}"
    if name.startswith("fast_"):
        return f"{_FAST}{name.removeprefix('fast_')}"
    return f"{_SLOW}{name}"


def is_s2_name(name: str) -> bool:
    """Return whether a name is one of S2's."""
    return re.match(r"text_model\.|audio_decoder\.", name) is not None


def _layers(name: str, sizes: TransformerConfig, biases: Biases) -> dict[str, Shape]:
    layer = layer_layout(sizes)
    if biases.query_key_value:
        layer["attention.wqkv.bias"] = layer["attention.wqkv.weight"][:1]
    if biases.output:
        layer["attention.wo.bias"] = (sizes.hidden_size,)
    if biases.head_norms:
        layer |= {f"attention.{part}_norm.weight": (sizes.head_dim,) for part in "qk"}
    return repeated(name, sizes.num_layers, layer)
