"""The AudioVAE: streaming decoder from latents to samples, and encoder from recordings to latents.

All layers are causal. The decoder keeps, per stream, the few columns before each convolution on
which later columns depend.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from antiphon.families.voxcpm2.checkpoint import (
    NUM_UNITS,
    decoder_blocks,
    encoder_blocks,
    last_layer,
)
from antiphon.families.voxcpm2.config import AudioVAEConfig, VoxCPM2Config
from antiphon.nn.codec_layers.conv import (
    CausalConv,
    CausalTransposedConv,
    LayerBuilder,
    PaddedConv,
    ResidualUnit,
    UpsamplingBlock,
)
from antiphon.nn.codec_layers.state import (
    ColumnHistory,
    DecoderState,
    EmptyHistory,
    RowHistory,
)
from antiphon.nn.layers import Snake, Weights

_DILATIONS = (1, 3, 9)
assert len(_DILATIONS) == NUM_UNITS


@dataclass(frozen=True, slots=True)
class RateCondition:
    """Sample rate condition of a block: a scale and a shift of its channels."""

    scale: Tensor
    shift: Tensor

    @classmethod
    def of(cls, weights: Weights, block: int, number: int) -> "RateCondition":
        """Load row ``number`` of a block's tables."""
        name = f"decoder.sr_cond_model.{block}"
        scale, shift = (weights[f"{name}.{part}_embed.weight"] for part in ("scale", "bias"))
        return cls(scale[number].clone(), shift[number].clone())

    def __call__(self, x: Tensor) -> Tensor:
        return torch.addcmul(self.shift, x, self.scale)


@dataclass(frozen=True, slots=True)
class VAEDecoder:
    """An `antiphon.codec.lockstep_decoder.FrameNetwork`, in float32.

    Attributes:
        first: depthwise and pointwise convolution, or one that is both.
        blocks: upsampling blocks, each with the condition before it, if any.
        row_size: numbers in the state of one stream.
    """

    first: tuple[CausalConv, ...]
    blocks: tuple[tuple[RateCondition | None, UpsamplingBlock], ...]
    last_snake: Snake
    last_conv: CausalConv
    patch_size: int
    row_size: int

    @classmethod
    def of(cls, weights: Weights, config: VoxCPM2Config) -> "VAEDecoder":
        """Build the decoder from `antiphon.families.voxcpm2.audio_vae_stages.vae_weights`."""
        vae, builder = config.vae, LayerBuilder(weights)
        first = [CausalConv.of(builder, "decoder.model.0", groups=_groups(vae, vae.latent_dim))]
        if vae.depthwise:
            first.append(CausalConv.of(builder, "decoder.model.1"))
        blocks = []
        for index, rate, _ in decoder_blocks(vae):
            condition = None
            if vae.sample_rate_bin is not None:
                condition = RateCondition.of(weights, index, vae.sample_rate_bin)
            blocks.append((condition, _block(builder, f"decoder.model.{index}.block", rate, vae)))
        last, _ = last_layer(vae)
        last_conv = CausalConv.of(builder, f"decoder.model.{last + 1}")
        return cls(
            first=tuple(first),
            blocks=tuple(blocks),
            last_snake=_snake(weights, f"decoder.model.{last}"),
            last_conv=last_conv,
            patch_size=config.patch_size,
            row_size=builder.layout.row_size,
        )

    def open(self, num_slots: int) -> DecoderState:
        """Return the state of fresh slots."""
        weight = self.last_conv.weight
        return DecoderState(
            weight.new_zeros(num_slots, self.row_size),
            weight.new_zeros(num_slots, dtype=torch.int64),
        )

    @torch.no_grad()
    def decode(self, frames: Tensor, rows: DecoderState) -> Tensor:
        """Decode the next frame of each row; see `antiphon.families.voxcpm2.request`.

        Args:
            frames: frames of the rows, int64 ``[num_rows, frame_size]``.
            rows: state of the rows; advanced in place.

        Returns:
            float32 ``[num_rows, samples_per_frame]`` in [-1, 1].
        """
        patches = frames[:, 1:].int().view(torch.float32)
        rows.position.add_(1)
        return self._run(patches.view(len(frames), self.patch_size, -1), RowHistory(rows))

    @torch.no_grad()
    def decode_whole(self, latents: Tensor) -> Tensor:
        """Decode whole streams of latents, ``[B, t, latent_dim]``, in one pass."""
        return self._run(latents, EmptyHistory(latents.shape[1], None, latents.device))

    def _run(self, x: Tensor, history: ColumnHistory) -> Tensor:
        for conv in self.first:
            x = conv(x, history)
        for condition, block in self.blocks:
            x = block(x if condition is None else condition(x), history)
        return self.last_conv(self.last_snake(x), history).squeeze(2).tanh()


@dataclass(frozen=True, slots=True)
class EncoderUnit:
    """Residual unit of two activated convolutions, the first one dilated."""

    snakes: tuple[Snake, Snake]
    convs: tuple[PaddedConv, PaddedConv]

    def __call__(self, x: Tensor) -> Tensor:
        hidden = x
        for snake, conv in zip(self.snakes, self.convs, strict=True):
            hidden = conv(snake(hidden))
        return x + hidden


@dataclass(frozen=True, slots=True)
class VAEEncoder:
    """The encoder of recordings at the AudioVAE's rate, in float32.

    Attributes:
        blocks: residual units, then the activated downsampling.
    """

    first: PaddedConv
    blocks: tuple[tuple[tuple[EncoderUnit, ...], Snake, PaddedConv], ...]
    last: PaddedConv

    @classmethod
    def of(cls, weights: Weights, config: AudioVAEConfig) -> "VAEEncoder":
        """Build the encoder from `antiphon.families.voxcpm2.audio_vae_stages.vae_weights`."""
        blocks = []
        for index, rate, channels in encoder_blocks(config):
            name = f"encoder.block.{index}.block"
            units = tuple(
                _encoder_unit(weights, f"{name}.{unit}.block", dilation, _groups(config, channels))
                for unit, dilation in enumerate(_DILATIONS)
            )
            snake = _snake(weights, f"{name}.{NUM_UNITS}", is_column=True)
            shorten = PaddedConv.of(weights, f"{name}.{NUM_UNITS + 1}.conv", stride=rate)
            blocks.append((units, snake, shorten))
        return cls(
            first=PaddedConv.of(weights, "encoder.block.0.conv"),
            blocks=tuple(blocks),
            last=PaddedConv.of(weights, "encoder.fc_mu.conv"),
        )

    @torch.no_grad()
    def encode(self, samples: Tensor) -> Tensor:
        """Map ``[num_samples]`` to latents, ``[num_samples / encoded_samples, latent_dim]``."""
        return self.encode_rows(samples[None])[0]

    @torch.no_grad()
    def encode_rows(self, samples: Tensor) -> Tensor:
        """Map ``[B, t]`` to ``[B, t / encoded_samples, latent_dim]``.

        All layers are causal: silence after a recording changes none of its latents.
        """
        x = self.first(samples[:, None])
        for units, snake, shorten in self.blocks:
            for unit in units:
                x = unit(x)
            x = shorten(snake(x))
        return self.last(x).transpose(1, 2)


def _groups(config: AudioVAEConfig, channels: int) -> int:
    return channels if config.depthwise else 1


def _snake(weights: Weights, name: str, *, is_column: bool = False) -> Snake:
    """Load a snake whose amplitude is the inverse of its frequency."""
    frequency = weights[f"{name}.alpha"].flatten()
    if is_column:
        frequency = frequency[:, None]
    return Snake(frequency, 1.0 / (frequency + 1e-9))


def _block(builder: LayerBuilder, name: str, rate: int, config: AudioVAEConfig) -> UpsamplingBlock:
    weights: Mapping[str, Tensor] = builder.weights
    upsample = CausalTransposedConv.of(builder, f"{name}.1", rate)
    channels = len(weights[f"{name}.1.conv.bias"])
    units = []
    for unit, dilation in enumerate(_DILATIONS, 2):
        part = f"{name}.{unit}.block"
        first = CausalConv.of(
            builder, f"{part}.1", dilation=dilation, groups=_groups(config, channels)
        )
        convs = (first, CausalConv.of(builder, f"{part}.3"))
        snakes = (_snake(weights, f"{part}.0"), _snake(weights, f"{part}.2"))
        units.append(ResidualUnit(snakes, convs))
    return UpsamplingBlock(_snake(weights, f"{name}.0"), upsample, tuple(units))


def _encoder_unit(weights: Weights, name: str, dilation: int, groups: int) -> EncoderUnit:
    first = PaddedConv.of(weights, f"{name}.1.conv", dilation=dilation, groups=groups)
    return EncoderUnit(
        (
            _snake(weights, f"{name}.0", is_column=True),
            _snake(weights, f"{name}.2", is_column=True),
        ),
        (first, PaddedConv.of(weights, f"{name}.3.conv")),
    )
