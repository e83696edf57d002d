"""Sizes of the language model."""

from collections.abc import Mapping
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerSizes:
    """Sizes of a stack of decoder layers."""

    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int = 64
    rope_theta: float = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSizes:
    """Sizes of talker and code predictor.

    Attributes:
        text_vocab_size: rows of the text embedding.
        codec_vocab_size: rows of the embedding of group 0; the last 1,024 are not codes.
        codebook_size: codes of each group, as in the codec.
    """

    talker: LayerSizes
    predictor: LayerSizes
    text_hidden_size: int
    text_vocab_size: int = 1024
    codec_vocab_size: int = 3072
    codebook_size: int = 2048

    @property
    def num_later_groups(self) -> int:
        """Groups of a frame after the first."""
        return 15

    def with_text(self, text_vocab_size: int) -> "ModelSizes":
        """Return the same sizes for another text vocabulary."""
        return replace(self, text_vocab_size=text_vocab_size)


SIZES: Mapping[str, ModelSizes] = {
    "tiny": ModelSizes(
        talker=LayerSizes(
            hidden_size=64,
            intermediate_size=160,
            num_layers=2,
            num_heads=2,
            num_kv_heads=1,
            head_dim=32,
        ),
        predictor=LayerSizes(
            hidden_size=48,
            intermediate_size=96,
            num_layers=2,
            num_heads=2,
            num_kv_heads=1,
            head_dim=32,
        ),
        text_hidden_size=64,
        codebook_size=64,
    ),
    "small": ModelSizes(  # 15 million parameters
        talker=LayerSizes(
            hidden_size=160,
            intermediate_size=560,
            num_layers=9,
            num_heads=4,
            num_kv_heads=2,
        ),
        predictor=LayerSizes(
            hidden_size=128,
            intermediate_size=384,
            num_layers=4,
            num_heads=4,
            num_kv_heads=2,
        ),
        text_hidden_size=128,
    ),
    "medium": ModelSizes(  # 30 million parameters
        talker=LayerSizes(
            hidden_size=320,
            intermediate_size=960,
            num_layers=10,
            num_heads=4,
            num_kv_heads=2,
        ),
        predictor=LayerSizes(
            hidden_size=192,
            intermediate_size=576,
            num_layers=3,
            num_heads=2,
            num_kv_heads=1,
        ),
        text_hidden_size=192,
    ),
}
