"""Names and shapes of both models' tensors, as a function of their configuration.

Names are those of S1's files. S2's have them below ``text_model.model`` and ``audio_decoder``.
"""

import re
from collections.abc import Iterable
from typing import TypeAlias

from antiphon.families.fish_speech.config import Biases, FishSpeechConfig
from antiphon.nn.layer_configs import TransformerConfig
from antiphon.nn.safetensors_index import Shape

ModelLayout: TypeAlias = dict[str, Shape]

CODEC_FILE, PICKLED_FILE = "codec.pth", "model.pth"
_SLOW, _FAST = "text_model.model.", "audio_decoder."
_SHARED = (
    "codebook_embeddings."  # of frames, for the slow model, though it lies beside the fast one
)
_UNREAD = r"(?:.*\.)?(?:fast_)?(?:freqs_cis|causal_mask)|audio_(?!decoder\.).*"
_UNREAD_HEADS = r"(?:text_model\.(?:model\.)?)?(?:lm_head|output)\.weight"


def layout_of(config: FishSpeechConfig) -> ModelLayout:
    """Return all tensors by S1's names."""
    width, fast_width = config.slow.hidden_size, config.fast.hidden_size
    size = config.codebook_size
    layout: ModelLayout = {
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
        layout["fast_project_in.weight"] = (fast_width, width)
        layout["fast_project_in.bias"] = (fast_width,)
    return layout


def unread(config: FishSpeechConfig) -> str:
    """Return a regular expression for names of tensors that are not read, by any naming.

    Old files repeat tables that are computed, and some a head that is tied.
    """
    return f"{_UNREAD}|{_UNREAD_HEADS}" if config.is_tied else _UNREAD


def tied(config: FishSpeechConfig, names: Iterable[str]) -> dict[str, str]:
    """Return the heads among stored tensors that the embedding is used in place of."""
    embedding = "embeddings.weight"
    return {
        name: s2_name(embedding) if is_s2_name(name) else embedding
        for name in names
        if config.is_tied and re.fullmatch(_UNREAD_HEADS, name)
    }


def s2_name(name: str) -> str:
    """Return the name that S2's files have for a tensor."""
    if name.startswith(_SHARED):
        return f"{_FAST}{name}"
    if name.startswith("fast_"):
        return f"{_FAST}{name.removeprefix('fast_')}"
    return f"{_SLOW}{name}"


def is_s2_name(name: str) -> bool:
    """Whether a file with such a name has S2's."""
    return re.match(r"text_model\.|audio_decoder\.", name) is not None


def _layers(name: str, sizes: TransformerConfig, biases: Biases) -> ModelLayout:
    width, inner = sizes.hidden_size, sizes.intermediate_size
    num_queries = sizes.num_heads * sizes.head_dim
    joined = num_queries + 2 * sizes.num_kv_heads * sizes.head_dim
    layer: ModelLayout = {
        "attention.wqkv.weight": (joined, width),
        "attention.wo.weight": (width, num_queries),
        "feed_forward.w1.weight": (inner, width),
        "feed_forward.w3.weight": (inner, width),
        "feed_forward.w2.weight": (width, inner),
        "ffn_norm.weight": (width,),
        "attention_norm.weight": (width,),
    }
    if biases.query_key_value:
        layer["attention.wqkv.bias"] = (joined,)
    if biases.output:
        layer["attention.wo.bias"] = (width,)
    if biases.head_norms:
        layer |= {f"attention.{part}_norm.weight": (sizes.head_dim,) for part in "qk"}
    return {
        f"{name}.{index}.{part}": shape
        for index in range(sizes.num_layers)
        for part, shape in layer.items()
    }
