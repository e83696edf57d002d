"""Layout of both models' tensors, inspection of a checkpoint, and its GPU requirements.

Names are those of S1's files. S2's files prefix them with ``text_model.model`` and
``audio_decoder``.
"""

import math
import re
from collections.abc import Iterable
from pathlib import Path

from antiphon.contracts.family import Product
from antiphon.contracts.inspection import Footprint, Inspection, files_table
from antiphon.families.fish_speech.codec_schema import CodecSizes, codec_layout, layer_layout
from antiphon.families.fish_speech.config import (
    LICENCE,
    SAMPLE_RATE_HZ,
    SAMPLES_PER_FRAME,
    FishSpeechConfig,
    Layout,
    load_config,
)
from antiphon.families.kit.checkpoint import Findings
from antiphon.families.kit.layouts import (
    FLOAT_BYTES,
    HALF_BYTES,
    affine,
    columns_flop,
    num_values,
    read_bytes,
    repeated,
    stream_flop,
)
from antiphon.nn.quantized.directory import read_directory
from antiphon.nn.safetensors_index import Shape, WeightsPart, tied_problems

CODEC_FILE, PICKLED_FILE = "codec.pth", "model.pth"
_SLOW, _FAST = "text_model.model.", "audio_decoder."
_SHARED = "codebook_embeddings."  # of the slow model's frames, although stored with the fast one
_UNREAD = r"(?:.*\.)?(?:fast_)?(?:freqs_cis|causal_mask)|audio_(?!decoder\.).*"
_UNREAD_HEADS = r"(?:text_model\.(?:model\.)?)?(?:lm_head|output)\.weight"
_TITLES = {Layout.S2: "Fish Speech S2", Layout.S1: "Fish Speech S1"}
_PROMPT_POSITIONS = 60  # per sentence, with the surrounding tokens
_LAUNCHES_A_LAYER = 6  # four products, attention and rotary embedding
_LAUNCHES_A_DRAW = 20
_ENDS_LAUNCHES = 40  # per frame outside of layers

# From docs/performance.md, by width of the language model: S2 Pro.
_MEASURED_MS = {2560: {"H200": {1: 5.38, 8: 6.54, 64: 10.32}}}


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
    if config.layout is Layout.S2:
        part, tensors = model_part(path, config), read_directory(path)
        headers = {name: header for name, (_, header) in tensors.items()}
        found.check_layout(path, headers, part.layout, part.others)
        untied = tied_problems(tensors, tied(config, tensors))
        found.problems += [f"{path}: tensors: {each}" for each in untied]


def model_part(path: Path, config: FishSpeechConfig) -> WeightsPart:
    """Return both models in the files of S2, by S1's names."""
    layout = layout_of(config)
    return WeightsPart(
        directory=path,
        layout={s2_name(name): shape for name, shape in layout.items()},
        others=unread(config),
        aliases={s2_name(name): name for name in layout},
    )


def layout_of(config: FishSpeechConfig) -> dict[str, Shape]:
    """Return the layout of all tensors by S1's names."""
    width, fast_width = config.slow.hidden_size, config.fast.hidden_size
    size, head_dim = config.codebook_size, config.slow.head_dim
    slow = layer_layout(config.slow)
    slow |= {f"attention.{part}_norm.weight": (head_dim,) for part in "qk"}
    layout: dict[str, Shape] = {
        "embeddings.weight": (config.vocab_size, width),
        "codebook_embeddings.weight": (size * config.num_codebooks, width),
        **repeated("layers", config.slow.num_layers, slow),
        "norm.weight": (width,),
        "fast_embeddings.weight": (size, fast_width),
        **repeated("fast_layers", config.fast.num_layers, layer_layout(config.fast)),
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
    embedding = s2_name(embedding) if config.is_s2 else embedding
    heads = filter(re.compile(_UNREAD_HEADS).fullmatch, names if config.is_tied else ())
    return dict.fromkeys(heads, embedding)


def s2_name(name: str) -> str:
    if name.startswith(_SHARED):
        return f"{_FAST}{name}"
    if name.startswith("fast_"):
        return f"{_FAST}{name.removeprefix('fast_')}"
    return f"{_SLOW}{name}"


def footprint(path: Path) -> Footprint:
    """Return the GPU requirements of a checkpoint's directory; raises ModelLoadError.

    No tensor is read; the codec's sizes are the published ones.
    """
    config, codec = load_config(path), CodecSizes()
    products, layout = frame_products(path), codec_layout(codec)
    num_layers = config.slow.num_layers + (config.num_codebooks - 1) * config.fast.num_layers
    return Footprint(
        weight_bytes=HALF_BYTES * num_values(layout_of(config).values())
        + FLOAT_BYTES * num_values(layout.values()),
        read_bytes=read_bytes(products),
        stream_flop=stream_flop(products),
        decoder_flop=decoder_flop(codec),
        position_bytes=HALF_BYTES * config.slow.position_size,
        num_launches=_LAUNCHES_A_LAYER * num_layers
        + _LAUNCHES_A_DRAW * config.num_codebooks
        + _ENDS_LAUNCHES,
        frames_per_s=SAMPLE_RATE_HZ / SAMPLES_PER_FRAME,
        prompt_positions=_PROMPT_POSITIONS,
        measured_ms=_MEASURED_MS.get(config.slow.hidden_size, {}),
    )


def frame_products(path: Path) -> list[Product]:
    """Return the matrix products of one frame, in order; those with a common input are merged.

    The slow model runs once, and the fast one once per further codebook; its first pass has two
    positions. All of its passes read the same weights.
    """
    config = load_config(path)
    width = config.slow.hidden_size
    products = config.slow.products("slow.")
    products.append(Product("slow.head", config.tokens.num_semantic + 1, width))
    if config.has_projection:
        products.append(Product("projection", config.fast.hidden_size, width))
    for codebook in range(1, config.num_codebooks):
        products += config.fast.products("fast.", 2 if codebook == 1 else 1)
        products.append(Product("fast.head", config.residual_codes, config.fast.hidden_size))
    return products


def decoder_flop(sizes: CodecSizes) -> int:
    """Return the additions and multiplications of the codec's decoder per frame."""
    return columns_flop(codec_layout(sizes), lambda name: _num_columns(name, sizes))


def _num_columns(name: str, sizes: CodecSizes) -> int:
    """Return the columns per frame that a weight is applied to; 0 outside of the decoder."""
    if name.startswith("quantizer.post_module"):
        return 1
    if found := re.match(r"quantizer\.upsample\.(\d+)\.(\d)", name):
        return math.prod(sizes.factors[::-1][: int(found[1]) + int(found[2] != "0")])
    if found := re.match(r"decoder\.model\.(\d+)\.(block\.1\.)?", name):
        num_done = int(found[1]) - (found[2] is not None)
        return math.prod(sizes.factors) * math.prod(sizes.rates[:num_done])
    return 0
