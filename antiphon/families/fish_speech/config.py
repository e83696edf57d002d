"""Configuration of a checkpoint, from either form of config.json.

S2 has ``fish_qwen3_omni`` with sections for the slow and the fast model. S1 and S1-mini have
``dual_ar``, a flat object. Keys, their meaning and defaults follow the published files.
Special token ids are those of the tokenizer's files.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any

from antiphon.contracts.config_file import ConfigSection
from antiphon.errors import ModelLoadError
from antiphon.nn.layer_configs import TransformerConfig

TOKENIZER_FILE = "tokenizer.json"
RANKS_FILE, SPECIAL_FILE = "tokenizer.tiktoken", "special_tokens.json"
"""S1's files, which replace tokenizer.json."""

IM_START, IM_END, VOICE, INTERLEAVE = "<|im_start|>", "<|im_end|>", "<|voice|>", "<|interleave|>"
_SEMANTIC = "<|semantic:{}|>"


@dataclass(frozen=True, slots=True)
class SpecialTokens:
    """Special token ids of prompts and answers.

    Attributes:
        ids: id of every special token by name.
        first_semantic: id of the first semantic code; the others follow.
        num_semantic: number of semantic codes.
    """

    ids: Mapping[str, int]
    first_semantic: int
    num_semantic: int

    @property
    def end(self) -> int:
        """Id that ends speech."""
        return self.ids[IM_END]

    @property
    def largest(self) -> int:
        return max(self.ids.values())


def read_special_tokens(path: Path) -> SpecialTokens:
    """Read the special tokens in a directory's tokenizer.json or special_tokens.json.

    Raises:
        ModelLoadError: both files or a token are missing, or semantic tokens are not contiguous.
    """
    file = path / TOKENIZER_FILE
    if file.is_file():
        ids = _of_tokenizer(ConfigSection.read(file))
    elif (path / SPECIAL_FILE).is_file():
        file = path / SPECIAL_FILE
        section = ConfigSection.read(file)
        ids = {name: section.integer(name) for name in section.values}
    else:
        raise ModelLoadError(
            f"{path}: there is neither {TOKENIZER_FILE} nor {RANKS_FILE} with {SPECIAL_FILE}"
        )
    count = 0
    while _SEMANTIC.format(count) in ids:
        count += 1
    if not count or IM_END not in ids:
        raise ModelLoadError(f"{file}: lacks {_SEMANTIC.format(0)} or {IM_END}")
    first = ids[_SEMANTIC.format(0)]
    if any(ids[_SEMANTIC.format(code)] != first + code for code in range(count)):
        raise ModelLoadError(f"{file}: the ids of semantic tokens do not follow each other")
    return SpecialTokens(MappingProxyType(ids), first, count)


def _of_tokenizer(section: ConfigSection) -> dict[str, int]:
    """Return added tokens, and vocabulary entries that look like special tokens."""
    vocabulary = section.section("model").section("vocab").values
    ids = {name: id_ for name, id_ in vocabulary.items() if name.startswith("<|")}
    added: Any = section.values.get("added_tokens") or []
    for each in added:
        entry = ConfigSection(section.file, "added_tokens", each)
        ids[entry.text("content")] = entry.integer("id")
    return ids


SAMPLE_RATE_HZ = 44_100
SAMPLES_PER_FRAME = 2048
"""Samples per frame at 21.5 frames per second."""
MAX_POSITIONS = 4096
"""Positions per request, prompt and frames together: about three minutes of speech."""
RESIDUAL_CODES = 1024
"""Codes per codebook of the codec except the first; the model's tables may have more rows."""
LICENCE = (
    "Fish Audio Research License: research and non-commercial use; commercial use, a hosted"
    " service included, needs a licence from Fish Audio (https://fish.audio)"
)


class Layout(StrEnum):
    """Checkpoint format, which also determines the format of prompts."""

    S2 = "fish_qwen3_omni"
    S1 = "dual_ar"


@dataclass(frozen=True, slots=True)
class Biases:
    """Biases of attention projections, and whether queries and keys are normalised."""

    query_key_value: bool
    output: bool
    head_norms: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FishSpeechConfig:
    """Configuration of both models.

    Attributes:
        layout: checkpoint format.
        slow: model that generates one semantic code per frame.
        fast: model that generates the other codes of the frame.
        num_codebooks: codes per frame, the semantic one first.
        codebook_size: rows of the model's table for each codebook.
        is_tied: whether the slow model's head is its embedding.
        scales_frames: whether a frame's summed embedding is divided by the root of its terms.
        norms_fast_input: whether the fast model reads normalised states of the slow one.
    """

    layout: Layout
    slow: TransformerConfig
    slow_biases: Biases
    fast: TransformerConfig
    fast_biases: Biases
    vocab_size: int
    num_codebooks: int
    codebook_size: int
    is_tied: bool
    scales_frames: bool
    norms_fast_input: bool
    tokens: SpecialTokens

    @property
    def residual_codes(self) -> int:
        """Codes that can be generated in every codebook but the first."""
        return min(self.codebook_size, RESIDUAL_CODES)

    @property
    def has_projection(self) -> bool:
        """Whether the slow model's states are projected to the fast one's width."""
        return self.slow.hidden_size != self.fast.hidden_size


def load_config(path: Path) -> FishSpeechConfig:
    """Read config.json and the special ids of the tokenizer from a checkpoint's directory.

    Raises:
        ModelLoadError: a file or key is missing, has the wrong type, or requires something that
            is not implemented; the message names file and key.
    """
    top = ConfigSection.read(path / "config.json")
    top.expect("model_type", *(each.value for each in Layout))
    is_s2 = top.text("model_type") == Layout.S2
    config = _s2(top, path) if is_s2 else _s1(top, path)
    if config.tokens.num_semantic > config.codebook_size:
        raise ModelLoadError(
            f"{path}: the tokenizer has {config.tokens.num_semantic} semantic tokens, and the"
            f" model embeddings of {config.codebook_size}"
        )
    if config.tokens.largest >= config.vocab_size:
        raise ModelLoadError(
            f"{path}: the tokenizer has ids up to {config.tokens.largest}, and the model"
            f" embeddings of {config.vocab_size}"
        )
    return config


def _s2(top: ConfigSection, path: Path) -> FishSpeechConfig:
    text, audio = top.section("text_config"), top.section("audio_decoder_config")
    slow, slow_biases = _layers(text)
    usual = {
        "n_head": slow.num_heads,
        "n_local_heads": slow.num_kv_heads,
        "head_dim": slow.head_dim,
        "dim": slow.hidden_size,
        "intermediate_size": slow.intermediate_size,
        "attention_qkv_bias": slow_biases.query_key_value,
        "attention_o_bias": slow_biases.output,
        "attention_qk_norm": slow_biases.head_norms,
        # The files repeat these; the slow model's values are the effective ones.
        "rope_base": slow.rope_theta,
        "norm_eps": slow.norm_eps,
    }
    given = {**usual, **{key: value for key, value in audio.values.items() if value is not None}}
    given |= {key: usual[key] for key in ("rope_base", "norm_eps")}
    fast, fast_biases = _layers(ConfigSection(audio.file, audio.prefix, given))
    return FishSpeechConfig(
        layout=Layout.S2,
        slow=slow,
        slow_biases=slow_biases,
        fast=fast,
        fast_biases=fast_biases,
        vocab_size=text.integer("vocab_size"),
        num_codebooks=_codebooks(audio, "num_codebooks"),
        codebook_size=audio.integer("vocab_size"),
        is_tied=text.boolean("tie_word_embeddings", True),
        scales_frames=True,
        norms_fast_input=True,
        tokens=read_special_tokens(path),
    )


_FAST_KEYS = {
    "dim": "fast_dim",
    "n_layer": "n_fast_layer",
    "n_head": "fast_n_head",
    "n_local_heads": "fast_n_local_heads",
    "head_dim": "fast_head_dim",
    "intermediate_size": "fast_intermediate_size",
    "attention_qkv_bias": "fast_attention_qkv_bias",
    "attention_o_bias": "fast_attention_o_bias",
    "attention_qk_norm": "fast_attention_qk_norm",
}


def _s1(top: ConfigSection, path: Path) -> FishSpeechConfig:
    top.expect("is_reward_model", False, default=False)
    slow, slow_biases = _layers(top)
    given = dict(top.values)
    given |= {
        key: top.values[name]
        for key, name in _FAST_KEYS.items()
        if top.values.get(name) is not None
    }
    given["n_layer"] = top.integer("n_fast_layer", 4)
    fast, fast_biases = _layers(ConfigSection(top.file, top.prefix, given))
    return FishSpeechConfig(
        layout=Layout.S1,
        slow=slow,
        slow_biases=slow_biases,
        fast=fast,
        fast_biases=fast_biases,
        vocab_size=top.integer("vocab_size"),
        num_codebooks=_codebooks(top, "num_codebooks"),
        codebook_size=top.integer("codebook_size"),
        is_tied=top.boolean("tie_word_embeddings", True),
        scales_frames=top.boolean("scale_codebook_embeddings", False),
        norms_fast_input=top.boolean("norm_fastlayer_input", False),
        tokens=read_special_tokens(path),
    )


def _codebooks(section: ConfigSection, key: str) -> int:
    count = section.integer(key)
    if count < 2:
        raise section.error(key, f"must be at least 2, but is {count}")
    return count


def _layers(section: ConfigSection) -> tuple[TransformerConfig, Biases]:
    hidden_size, num_heads = section.integer("dim"), section.integer("n_head")
    if num_heads < 1:
        raise section.error("n_head", "must be at least 1")
    num_kv_heads = _kv_heads(section, num_heads)
    head_dim = section.integer("head_dim", hidden_size // num_heads)
    if head_dim % 2:
        raise section.error("head_dim", f"must be even, but is {head_dim}")
    return (
        TransformerConfig(
            hidden_size=hidden_size,
            intermediate_size=section.integer("intermediate_size", _usual_width(hidden_size)),
            num_layers=section.integer("n_layer"),
            num_heads=num_heads,
            num_kv_heads=num_kv_heads,
            head_dim=head_dim,
            norm_eps=section.number("norm_eps", 1e-5),
            rope_theta=section.number("rope_base", 10_000.0),
            max_positions=section.integer("max_seq_len", 2048),
        ),
        Biases(
            section.boolean("attention_qkv_bias", False),
            section.boolean("attention_o_bias", False),
            section.boolean("attention_qk_norm", False),
        ),
    )


def _kv_heads(section: ConfigSection, num_heads: int) -> int:
    """Return the number of key-value heads; -1 or a missing value means that of query heads."""
    values: Mapping[str, object] = section.values
    if values.get("n_local_heads") in (None, -1):
        return num_heads
    count = section.integer("n_local_heads")
    if count < 1 or num_heads % count:
        raise section.error("n_local_heads", f"must divide {num_heads}")
    return count


def _usual_width(hidden_size: int) -> int:
    """Return the default feed-forward width: 8/3 of the hidden size, in steps of 256."""
    return -(-(8 * hidden_size // 3) // 256) * 256
