"""Configuration of a checkpoint's prior: sizes, special ids and sampling parameters."""

from dataclasses import dataclass
from pathlib import Path

from antiphon.contracts.config_file import ConfigSection
from antiphon.contracts.types import Sampling
from antiphon.nn.layer_configs import TRANSFORMER_KEYS, TransformerConfig

PRIOR_DIRECTORY = "vision_language_encoder"
PROCESSOR_DIRECTORY = "processor"

CODE_PIXELS = 32
"""Width and height of the square that a code stands for; the denoiser has a token for 16."""

LATENT_PIXELS = 8
"""Width and height of the square that a latent stands for."""

_ROPE_SECTIONS = (8, 12, 12)  # the official class's default
_TOP_K = 50  # transformers' default, where generation_config.json has none


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorConfig:
    """The language model that draws the codes of an image.

    Attributes:
        vocab_size: ids that it reads: codes of images first, then text.
        head_size: rows of the head, of which the first ``num_codes`` are used.
        num_codes: size of the codebook; ids are 0 to ``num_codes - 1``.
        has_biases: whether queries, keys and values have.
        image_id: stands for a code of an image to be edited.
        sampling: the checkpoint's defaults, complete but for the number of codes.
    """

    transformer: TransformerConfig
    vocab_size: int
    head_size: int
    num_codes: int
    has_biases: bool
    image_id: int
    sampling: Sampling


def load_config(path: Path) -> PriorConfig:
    """Read the configuration of the prior of a checkpoint's directory; raises ModelLoadError."""
    top = ConfigSection.read(path / PRIOR_DIRECTORY / "config.json")
    top.expect("model_type", "glm_image")
    text = top.section("text_config")
    num_codes = top.section("vq_config").integer("num_embeddings", 16384)
    head_size = text.integer("vision_vocab_size", 16512)
    if head_size < num_codes:
        raise text.error("vision_vocab_size", f"must be at least {num_codes}, the codebook's size")
    return PriorConfig(
        transformer=_transformer(text),
        vocab_size=text.integer("vocab_size"),
        head_size=head_size,
        num_codes=num_codes,
        has_biases=text.boolean("attention_bias", True),
        image_id=top.integer("image_token_id"),
        sampling=_sampling(path / PRIOR_DIRECTORY / "generation_config.json"),
    )


def _transformer(text: ConfigSection) -> TransformerConfig:
    text.expect("hidden_act", "silu", default="silu")
    rope = text.rope()
    rope.expect("rope_type", "default")
    num_heads, hidden_size = text.integer("num_attention_heads"), text.integer("hidden_size")
    head_dim = text.integer("head_dim", hidden_size // max(num_heads, 1))
    rotary_dim = int(head_dim * rope.number("partial_rotary_factor", 1.0))
    sections = rope.integers("mrope_section", _ROPE_SECTIONS)
    if sum(sections) * 2 != rotary_dim:
        raise rope.error("mrope_section", f"must add up to {rotary_dim // 2}, but is {sections}")
    return text.build(
        TransformerConfig,
        TRANSFORMER_KEYS,
        {"num_kv_heads": num_heads, "norm_eps": 1e-5},
        head_dim=head_dim,
        rope_theta=rope.number("rope_theta"),
        rotary_dim=rotary_dim,
        rope_sections=sections,
    )


def _sampling(file: Path) -> Sampling:
    """Return how the official pipeline draws: always by chance, with these parameters."""
    if not file.is_file():
        return Sampling(temperature=1.0, top_k=_TOP_K, top_p=1.0, repetition_penalty=1.0)
    generation = ConfigSection.read(file)
    generation.expect("repetition_penalty", 1, 1.0, default=1.0)
    return Sampling(
        temperature=generation.number("temperature", 1.0),
        top_k=generation.integer("top_k", _TOP_K),
        top_p=generation.number("top_p", 1.0),
        repetition_penalty=1.0,
    )
