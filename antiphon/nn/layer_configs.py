"""Sizes of networks shared by several families, as frozen dataclasses without torch."""

from dataclasses import dataclass
from typing import TypeAlias

from antiphon.contracts.family import Product


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearScaling:
    """Linear RoPE scaling: all wavelengths are longer by ``factor``."""

    factor: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Llama3Scaling:
    """RoPE scaling of Llama 3: stretch long wavelengths for long contexts.

    Attributes:
        factor: stretch of wavelengths beyond the long bound.
        low_factor: bound of full stretching: wavelengths above ``original_positions / low_factor``.
        high_factor: bound of no stretching: wavelengths below ``original_positions / high_factor``.
        original_positions: longest sequence before scaling.
    """

    factor: float
    low_factor: float
    high_factor: float
    original_positions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class YarnScaling:
    """RoPE scaling of YaRN (arXiv 2309.00071).

    Attributes:
        factor: stretch of the longest wavelengths.
        original_positions: longest sequence before scaling.
        beta_fast: turns over that length above which wavelengths stay unchanged.
        beta_slow: turns over that length below which wavelengths are stretched fully.
        attention_factor: factor of queries and keys; ``None``: the paper's, derived from
            ``factor``.
    """

    factor: float
    original_positions: int
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    attention_factor: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LongRopeScaling:
    """RoPE scaling of LongRoPE (arXiv 2402.13753), with a factor for each wavelength.

    Attributes:
        factors: stretch of each wavelength, the shortest first.
    """

    factors: tuple[float, ...]
    amplitude: float = 1.0


RopeScaling: TypeAlias = LinearScaling | Llama3Scaling | YarnScaling | LongRopeScaling


TRANSFORMER_KEYS = {
    "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads",
    "num_kv_heads": "num_key_value_heads",
    "norm_eps": "rms_norm_eps",
    "max_positions": "max_position_embeddings",
}
"""Keys in config.json of the fields of `TransformerConfig` that have other names there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformerConfig:
    """A stack of attention and feed-forward layers.

    Attributes:
        head_dim: independent of ``hidden_size / num_heads``.
        norm_eps: epsilon of RMSNorm or LayerNorm.
        max_positions: longest sequence that the position embedding was made for.
        window: keys visible to a query, itself included; ``None``: all keys before it.
        rotary_dim: number of leading dimensions of a head that are rotated; ``None``: all, 0: none.
        rope_sections: pairs of dimensions that turn with each axis of a position, in turn, as in
            Qwen2-VL's multimodal rotary embedding; empty: a position is one number.
    """

    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    norm_eps: float
    rope_theta: float
    max_positions: int
    window: int | None = None
    rotary_dim: int | None = None
    rope_scaling: RopeScaling | None = None
    rope_sections: tuple[int, ...] = ()

    @property
    def num_rotated(self) -> int:
        """Dimensions of a head that are rotated."""
        return self.head_dim if self.rotary_dim is None else self.rotary_dim

    @property
    def position_size(self) -> int:
        """Values per position of keys and values, in all layers."""
        return 2 * self.num_layers * self.num_kv_heads * self.head_dim

    def products(self, name: str, num_positions: int = 1) -> list[Product]:
        """Return the matrix products of one pass; products that share an input are joined."""
        queries = self.num_heads * self.head_dim
        joined = queries + 2 * self.num_kv_heads * self.head_dim
        width, inner = self.hidden_size, self.intermediate_size
        parts = [("qkv", joined, width), ("out", width, queries)]
        parts += [("up", 2 * inner, width), ("down", width, inner)]
        return [
            Product(f"{name}{layer}.{part}", num_outputs, num_inputs, num_positions)
            for layer in range(self.num_layers)
            for part, num_outputs, num_inputs in parts
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class EcapaConfig:
    """Sizes of ECAPA-TDNN, which maps a mel spectrogram to one vector.

    Attributes:
        channels: channels of the first layer, of each block, and of the layer that joins the
            blocks.
        kernel_sizes: kernel sizes of the same layers.
        dilations: dilations of the same layers.
        res2net_scale: groups of channels in a block.
    """

    mel_dim: int = 128
    embedding_size: int = 1024
    channels: tuple[int, ...] = (512, 512, 512, 512, 1536)
    kernel_sizes: tuple[int, ...] = (5, 3, 3, 3, 1)
    dilations: tuple[int, ...] = (1, 2, 3, 4, 1)
    attention_channels: int = 128
    res2net_scale: int = 8
    se_channels: int = 128
    sample_rate_hz: int = 24000
