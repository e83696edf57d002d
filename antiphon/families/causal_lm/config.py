"""Configuration of a checkpoint's language model: sizes, layout, stop ids, sampling defaults."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from antiphon.contracts.chat_types import ChatSampling
from antiphon.contracts.config_file import ConfigSection
from antiphon.contracts.family import LoadContext
from antiphon.contracts.sampling import NEUTRAL_SAMPLING
from antiphon.nn.layer_configs import (
    TRANSFORMER_KEYS,
    LinearScaling,
    Llama3Scaling,
    RopeScaling,
    TransformerConfig,
    YarnScaling,
)

_CACHE_BYTES = 8 * 2**30  # limit of one request's keys and values without a setting
_NUMBER_BYTES = 2


@dataclass(frozen=True, slots=True)
class _Layout:
    """Properties fixed by the code of an architecture, without a key in its configuration.

    Attributes:
        sections: keys that lead to the language model's section.
        prefix: prefix of the language model's tensors.
        others: regular expression of tensor names that belong to other parts.
        biased: attention projections that always have a bias, of "q", "k", "v" and "o".
        may_be_biased: attention projections with a bias if ``attention_bias`` is set.
        has_head_norms: whether queries and keys are normalised.
        is_windowed: whether the architecture reads ``use_sliding_window``.
        default_theta: base of the rotary embedding if no key states it.
    """

    sections: tuple[str, ...] = ()
    prefix: str = ""
    others: str = ""
    biased: str = ""
    may_be_biased: str = ""
    has_head_norms: bool = False
    is_windowed: bool = False
    default_theta: float = 10000.0


_OMNI_THETA: Final = 1e6
_OMNI = _Layout(
    ("thinker_config", "text_config"),
    "thinker.",
    r"(talker|token2wav|thinker\.(audio_tower|visual))\..*",
    "qkv",
    is_windowed=True,
    default_theta=_OMNI_THETA,
)
_LAYOUTS: Mapping[str, _Layout] = {
    "LlamaForCausalLM": _Layout(may_be_biased="qkvo"),
    "Qwen2ForCausalLM": _Layout(biased="qkv", is_windowed=True),
    "Qwen3ForCausalLM": _Layout(may_be_biased="qkvo", has_head_norms=True, is_windowed=True),
    "Qwen2_5OmniModel": _OMNI,
    "Qwen2_5OmniForConditionalGeneration": _OMNI,
    "Qwen2_5OmniThinkerForConditionalGeneration": _Layout(
        ("text_config",),
        "",
        r"(audio_tower|visual)\..*",
        "qkv",
        is_windowed=True,
        default_theta=_OMNI_THETA,
    ),
}
_ROPE_KINDS: Final = ("default", "linear", "llama3", "yarn")


@dataclass(frozen=True, slots=True, kw_only=True)
class CausalLMConfig:
    """Configuration of a language model and its sampling defaults.

    Attributes:
        vocab_size: rows of the embedding.
        prefix: prefix of the language model's tensors.
        others: regular expression of tensor names that belong to other parts.
        biased: attention projections with a bias, of "q", "k", "v" and "o".
        has_mlp_bias: whether the feed-forward layers have a bias.
        has_head_norms: whether queries and keys are normalised.
        is_tied: whether the head is the embedding.
        eos_ids: ids that end an answer; the tokenizer may add one more.
        sampling: defaults of the checkpoint, every field set.
    """

    architecture: str
    transformer: TransformerConfig
    vocab_size: int
    prefix: str
    others: str
    biased: str
    has_mlp_bias: bool
    has_head_norms: bool
    is_tied: bool
    eos_ids: tuple[int, ...]
    sampling: ChatSampling

    @property
    def position_size(self) -> int:
        """Numbers in the keys and values of a position."""
        return self.transformer.position_size

    def max_positions(self, context: LoadContext) -> int:
        """Return the maximum length of prompt and answer together.

        That is the model's own limit, reduced so that one request fits into the cache.
        """
        room = (context.cache_bytes or _CACHE_BYTES) // (self.position_size * _NUMBER_BYTES)
        return max(1, min(self.transformer.max_positions, room))


def load_config(path: Path) -> CausalLMConfig:
    """Read config.json and generation_config.json of a checkpoint; raises ModelLoadError."""
    top = ConfigSection.read(path / "config.json", unpacks=True)
    names = top.values.get("architectures") or [None]
    if names[0] not in _LAYOUTS:
        raise top.error("architectures", f"must begin with one of {', '.join(_LAYOUTS)}")
    layout = _LAYOUTS[names[0]]
    outer, text = top, top
    for key in layout.sections:
        outer, text = text, text.section(key)
    _refuse_windows(text, layout)
    is_biased = text.boolean("attention_bias", False) and bool(layout.may_be_biased)
    generation_file = path / "generation_config.json"
    generation = ConfigSection(generation_file, "", {})
    if generation_file.is_file():
        generation = ConfigSection.read(generation_file)
    return CausalLMConfig(
        architecture=names[0],
        transformer=transformer_config(text, layout.default_theta),
        vocab_size=text.integer("vocab_size"),
        prefix=layout.prefix,
        others=layout.others,
        biased=layout.may_be_biased if is_biased else layout.biased,
        has_mlp_bias=text.boolean("mlp_bias", False),
        has_head_norms=layout.has_head_norms,
        # The head belongs to the class of the outer section; the text section's key has no effect.
        is_tied=outer.boolean("tie_word_embeddings", False),
        eos_ids=_eos_ids(generation, outer, text),
        sampling=_sampling(generation),
    )


def _refuse_windows(text: ConfigSection, layout: _Layout) -> None:
    if layout.is_windowed and text.boolean("use_sliding_window", False):
        raise text.error("use_sliding_window", "is true; sliding windows are not supported")
    if layout.is_windowed and "sliding_attention" in (text.values.get("layer_types") or ()):
        raise text.error("layer_types", "has 'sliding_attention', which is not supported")


def transformer_config(text: ConfigSection, default_theta: float = 10000.0) -> TransformerConfig:
    text.expect("hidden_act", "silu", default="silu")
    num_heads, hidden_size = text.integer("num_attention_heads"), text.integer("hidden_size")
    if num_heads < 1:
        raise text.error("num_attention_heads", "must be at least 1")
    num_kv_heads = text.integer("num_key_value_heads", num_heads)
    if num_kv_heads < 1 or num_heads % num_kv_heads:
        raise text.error("num_key_value_heads", f"must divide {num_heads}")
    max_positions = text.integer("max_position_embeddings", 32768)
    rope = text.rope(default_theta)
    return text.build(
        TransformerConfig,
        TRANSFORMER_KEYS,
        {"head_dim": hidden_size // num_heads, "norm_eps": 1e-6},
        num_kv_heads=num_kv_heads,
        rope_theta=rope.number("rope_theta"),
        max_positions=max_positions,
        rope_scaling=_rope_scaling(rope, max_positions),
    )


def _rope_scaling(rope: ConfigSection, max_positions: int) -> RopeScaling | None:
    kind = rope.text("rope_type")
    rope.expect("partial_rotary_factor", 1, 1.0, default=1.0)
    original = rope.integer("original_max_position_embeddings", max_positions)
    match kind:
        case "default":
            return None
        case "linear":
            return LinearScaling(factor=rope.number("factor"))
        case "llama3":
            return Llama3Scaling(
                factor=rope.number("factor"),
                low_factor=rope.number("low_freq_factor"),
                high_factor=rope.number("high_freq_factor"),
                original_positions=original,
            )
        case "yarn":
            for key in ("mscale", "mscale_all_dim"):
                rope.expect(key, None)
            rope.expect("truncate", True, default=True)
            given = rope.values.get("attention_factor")
            return YarnScaling(
                factor=rope.number("factor"),
                original_positions=original,
                beta_fast=rope.number("beta_fast", 32.0),
                beta_slow=rope.number("beta_slow", 1.0),
                attention_factor=None if given is None else rope.number("attention_factor"),
            )
    supported = ", ".join(_ROPE_KINDS)
    raise rope.error("rope_type", f"is '{kind}'; there are only {supported}")


def _eos_ids(*sections: ConfigSection) -> tuple[int, ...]:
    """Return the ids of the first section that has any."""
    for section in sections:
        value: Any = section.values.get("eos_token_id")
        if isinstance(value, list):
            return section.integers("eos_token_id")
        if value is not None:
            return (section.integer("eos_token_id"),)
    return ()


def _sampling(generation: ConfigSection) -> ChatSampling:
    """Return the sampling of generation_config.json; what it omits is disabled."""
    return replace(
        NEUTRAL_SAMPLING,
        temperature=generation.number("temperature", 1.0),
        top_p=generation.number("top_p", 1.0),
        top_k=generation.integer("top_k", 0),
        min_p=generation.number("min_p", 0.0),
        repetition_penalty=generation.number("repetition_penalty", 1.0),
    )
