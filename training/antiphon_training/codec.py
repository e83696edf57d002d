"""The codec: encoder of samples, quantizers, decoder of frames, in the official layout."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from antiphon_training.codec_layers import (
    CausalConv,
    CausalTransposedConv,
    ConvNeXtBlock,
    EluUnit,
    SnakeBeta,
    StridedConv,
    TransformerLayer,
    UpsamplingBlock,
    rotation_of,
    window_mask,
)
from antiphon_training.quantizer import Quantized, ResidualQuantizer
from antiphon_training.sizes import (
    DOWNSAMPLE_STRIDE,
    ENCODER_STRIDES,
    NORM_EPSILON,
    UPSAMPLE_RATES,
    UPSAMPLING_RATIOS,
    CodecSizes,
)

CODE_PARAMETERS = ("encoder.", "first.input_proj.", "rest.input_proj.")
"""Names of parameters of a `Codec` that decide about its codes; the others only decode them."""


class Encoder(nn.Module):
    """Samples ``[B, 1, t]`` to vectors of frames ``[B, encoder_hidden_size, ceil(t / 1920)]``."""

    def __init__(self, sizes: CodecSizes) -> None:
        super().__init__()
        hidden, width = sizes.encoder_hidden_size, sizes.num_filters
        layers: list[nn.Module] = [CausalConv(1, width, 7)]
        for stride in ENCODER_STRIDES:
            layers += [EluUnit(width), nn.ELU(), StridedConv(width, 2 * width, stride)]
            width *= 2
        layers += [nn.ELU(), CausalConv(width, hidden, 3)]
        self.encoder = nn.ModuleDict({"layers": nn.Sequential(*layers)})
        blocks = (
            TransformerLayer(
                hidden,
                sizes.encoder_intermediate_size,
                sizes.num_encoder_heads,
                sizes.encoder_head_dim,
                is_gated=False,
            )
            for _ in range(sizes.num_encoder_layers)
        )
        self.encoder_transformer = nn.ModuleDict({"layers": nn.ModuleList(blocks)})
        self.downsample = StridedConv(
            hidden, hidden, DOWNSAMPLE_STRIDE, bias=False, mode="replicate"
        )
        self._head_dim = sizes.encoder_head_dim

    def forward(self, samples: Tensor) -> Tensor:
        steps = self.encoder["layers"](samples).transpose(1, 2)
        rotation = rotation_of(steps.shape[1], self._head_dim, steps.device)
        for layer in _layers(self.encoder_transformer):
            steps = layer(steps, rotation, None)
        return self.downsample(steps.transpose(1, 2))  # type: ignore[no-any-return]


class Decoder(nn.Module):
    """Vectors of frames ``[B, 2 * vector_dim, n]`` to samples ``[B, 1, 1920 n]``, not clamped."""

    def __init__(self, sizes: CodecSizes) -> None:
        super().__init__()
        latent, hidden = sizes.latent_dim, sizes.hidden_size
        self.pre_conv = CausalConv(2 * sizes.vector_dim, latent, 3)
        blocks = (
            TransformerLayer(
                hidden, sizes.intermediate_size, sizes.num_heads, sizes.head_dim, is_gated=True
            )
            for _ in range(sizes.num_layers)
        )
        self.pre_transformer = nn.ModuleDict(
            {
                "input_proj": nn.Linear(latent, hidden),
                "layers": nn.ModuleList(blocks),
                "norm": nn.RMSNorm(hidden, eps=NORM_EPSILON),
                "output_proj": nn.Linear(hidden, latent),
            }
        )
        self.upsample = nn.Sequential(
            *(
                nn.Sequential(
                    CausalTransposedConv(latent, latent, ratio, ratio), ConvNeXtBlock(latent)
                )
                for ratio in UPSAMPLING_RATIOS
            )
        )
        width = sizes.decoder_dim
        layers: list[nn.Module] = [CausalConv(latent, width, 7)]
        for rate in UPSAMPLE_RATES:
            layers.append(UpsamplingBlock(width, width // 2, rate))
            width //= 2
        self.decoder = nn.Sequential(*layers, SnakeBeta(width), CausalConv(width, 1, 7))
        self._head_dim, self._window_frames = sizes.head_dim, sizes.window_frames

    @property
    def output(self) -> nn.Module:
        """Last convolution, to samples."""
        last = self.decoder[-1]
        assert isinstance(last, CausalConv)
        return last.conv

    def forward(self, vectors: Tensor) -> Tensor:
        transformer = self.pre_transformer
        hidden = transformer["input_proj"](self.pre_conv(vectors).transpose(1, 2))
        num_frames, device = hidden.shape[1], hidden.device
        rotation = rotation_of(num_frames, self._head_dim, device)
        mask = window_mask(num_frames, self._window_frames, device)
        for layer in _layers(transformer):
            hidden = layer(hidden, rotation, mask)
        hidden = transformer["output_proj"](transformer["norm"](hidden))
        return self.decoder(self.upsample(hidden.transpose(1, 2)))  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class Decoded:
    """What a codec makes of samples.

    Attributes:
        samples: of the same shape, float32 and not clamped.
        first: vectors of the first codes, ``[B, 2 * vector_dim, n]``.
        commitment: distance of the encoder's vectors from their codes.
    """

    samples: Tensor
    first: Tensor
    commitment: Tensor


class Codec(nn.Module):
    """Encoder, quantizer of the first code, quantizer of the other codes, decoder."""

    def __init__(self, sizes: CodecSizes) -> None:
        super().__init__()
        self.sizes = sizes
        self.encoder = Encoder(sizes)
        self.decoder = Decoder(sizes)
        shape = (sizes.codebook_size, sizes.vector_dim)
        ends = (sizes.encoder_hidden_size, 2 * sizes.vector_dim)
        self.first = ResidualQuantizer(1, *shape, *ends)
        self.rest = ResidualQuantizer(sizes.num_codebooks - 1, *shape, *ends)

    def forward(
        self,
        samples: Tensor,
        num_used: Tensor | None = None,
        *,
        quantizes: bool = True,
        learns_codes: bool = True,
    ) -> Decoded:
        """Encode and decode.

        Args:
            samples: ``[B, 1, t]``, ``t`` a multiple of 1920.
            num_used: codes in use per row, int64 ``[B]``; ``None``: all.
            quantizes: whether vectors are quantized.
            learns_codes: whether gradients reach the encoder.
        """
        with torch.set_grad_enabled(learns_codes and torch.is_grad_enabled()):
            encoded = self.encoder(samples)
        if not quantizes:
            first = self.first.unquantized(encoded)
            samples = self.decoder(first + self.rest.unquantized(encoded)).float()
            return Decoded(samples, first, encoded.new_zeros((), dtype=torch.float32))
        coarse, fine = self._quantized(encoded, num_used)
        samples = self.decoder(coarse.vectors + fine.vectors).float()
        return Decoded(samples, coarse.vectors, coarse.commitment + fine.commitment)

    @property
    def quantizers(self) -> tuple[ResidualQuantizer, ResidualQuantizer]:
        return self.first, self.rest

    @torch.no_grad()
    def fit_codebooks(self, batches: Iterator[Tensor]) -> None:
        """Set the codebooks to clusters of what the encoder makes of samples ``[B, 1, t]``."""
        encoded = torch.cat([self.encoder(samples).float() for samples in batches])
        for quantizer in self.quantizers:
            quantizer.fit(encoded)

    @torch.no_grad()
    def encode(self, samples: Tensor) -> Tensor:
        """Return the codes of samples ``[B, t]``, int64 ``[B, ceil(t / 1920), num_codebooks]``."""
        first, rest = self._quantized(self.encoder(samples[:, None]), None)
        return torch.cat((first.codes, rest.codes), 1).transpose(1, 2)

    @torch.no_grad()
    def decode(self, codes: Tensor) -> Tensor:
        """Return the samples of codes ``[B, n, num_codebooks]``, float32 ``[B, 1920 n]``."""
        return self.decoded(codes)[:, 0].clamp(-1.0, 1.0)

    def decoded(self, codes: Tensor) -> Tensor:
        """Return the samples of codes, not clamped, ``[B, 1, 1920 n]``; only the decoder learns."""
        vectors = self.first.vectors(codes[:, :, :1]) + self.rest.vectors(codes[:, :, 1:])
        return self.decoder(vectors).float()  # type: ignore[no-any-return]

    def _quantized(self, encoded: Tensor, num_used: Tensor | None) -> tuple[Quantized, Quantized]:
        others = None if num_used is None else num_used - 1
        return self.first(encoded), self.rest(encoded, others)


def _layers(transformer: nn.ModuleDict) -> nn.ModuleList:
    layers = transformer["layers"]
    assert isinstance(layers, nn.ModuleList)
    return layers
