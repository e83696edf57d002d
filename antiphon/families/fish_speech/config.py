"""Configuration of a checkpoint, from either form of config.json.

S2 has ``fish_qwen3_omni`` with sections for the slow and the fast model. S1 and S1-mini have
``dual_ar``, a flat object. Keys, their meaning and defaults follow the published files.
Special token ids are those of the tokenizer's files.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any

from antiphon.contracts.config_file import ConfigSection
from antiphon.errors import ModelLoadError
from antiphon.families.kit.readers.transformer import transformer_sizes
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
    """

    ids: Mapping[str, int]
    first_semantic: int
    num_semantic: int

    @property
    def end(self) -> int:
        return self.ids[IM_END]

    @property
    def largest(self) -> int:
        return max(self.ids.values())


def read_special_tokens(path: Path) -> SpecialTokens:
    """Read the special tokens of a directory's tokenizer files; raises ModelLoadError."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class FishSpeechConfig:
    """Configuration of both models.

    Attributes:
        slow: model that generates one semantic code per frame.
        fast: model that generates the other codes of the frame.
        num_codebooks: codes per frame, the semantic one first.
        codebook_size: rows of the model's table for each codebook.
        is_tied: whether the slow model's head is its embedding.
    """

    layout: Layout
    slow: TransformerConfig
    fast: TransformerConfig
    vocab_size: int
    num_codebooks: int
    codebook_size: int
    is_tied: bool
    tokens: SpecialTokens

    @property
    def is_s2(self) -> bool:
        """Whether the embeddings of frames are scaled, and the fast model reads normed states."""
        return self.layout is Layout.S2

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
    top = ConfigSection.read(path / "config.json", unpacks=True)
    top.expect("model_type", *(each.value for each in Layout))
    layout = Layout(top.text("model_type"))
    if layout is Layout.S2:
        text, fast = top.section("text_config"), top.section("audio_decoder_config")
        # The fast model's section repeats these; the slow model's values are the effective ones.
        values = {key: each for key, each in fast.values.items() if key not in _SLOW_KEYS}
        size_key = "vocab_size"
    else:
        for key in ("is_reward_model", "scale_codebook_embeddings", "norm_fastlayer_input"):
            top.expect(key, False, default=False)
        text = fast = top
        values = {key: top.values.get(name) for key, name in _FAST_KEYS.items()}
        size_key = "codebook_size"
    given = {key: each for key, each in values.items() if each is not None}
    num_codebooks = fast.integer("num_codebooks")
    if num_codebooks < 2:
        raise fast.error("num_codebooks", f"must be at least 2, but is {num_codebooks}")
    sizes = replace(fast, values={**text.values, **given})
    config = FishSpeechConfig(
        layout=layout,
        slow=_layers(text, has_head_norms=True),
        fast=_layers(sizes, has_head_norms=False),
        vocab_size=text.integer("vocab_size"),
        num_codebooks=num_codebooks,
        codebook_size=fast.integer(size_key),
        is_tied=text.boolean("tie_word_embeddings", True),
        tokens=read_special_tokens(path),
    )
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


_SLOW_KEYS = ("rope_base", "norm_eps")
_SIZES = ("dim", "n_head", "n_local_heads", "head_dim", "intermediate_size", "attention_qk_norm")
_FAST_KEYS = {"n_layer": "n_fast_layer"} | {key: f"fast_{key}" for key in _SIZES}
_KEYS = {
    "hidden_size": "dim",
    "num_layers": "n_layer",
    "num_heads": "n_head",
    "num_kv_heads": "n_local_heads",
    "rope_theta": "rope_base",
    "max_positions": "max_seq_len",
}
_USUAL = {"norm_eps": 1e-5, "rope_theta": 10_000.0, "max_positions": 2048}


def _layers(section: ConfigSection, *, has_head_norms: bool) -> TransformerConfig:
    for key in ("attention_qkv_bias", "attention_o_bias"):
        section.expect(key, False, default=False)
    section.expect("attention_qk_norm", has_head_norms, default=False)
    sizes = transformer_sizes(section, _KEYS, _USUAL)
    if sizes.head_dim % 2:
        raise section.error("head_dim", f"must be even, but is {sizes.head_dim}")
    return sizes
