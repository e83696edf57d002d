"""The AudioVAE: streaming decoder from latents to samples, and encoder from recordings to latents.

All layers are causal. The decoder keeps, per stream, the few columns before each convolution on
which later columns depend.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from antiphon.families.kit.dac.layers import DILATIONS, snake_of, upsampling_of
from antiphon.families.voxcpm2.checkpoint import decoder_blocks, encoder_blocks, last_layer
from antiphon.families.voxcpm2.config import AudioVAEConfig, VoxCPM2Config
from antiphon.nn.codec_layers.conv import CausalConv, LayerBuilder, PaddedConv, UpsamplingBlock
from antiphon.nn.codec_layers.state import ColumnHistory, DecoderState, EmptyHistory, RowHistory
from antiphon.nn.layers import Snake, Weights


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
        first: depthwise and pointwise convolution.
        row_size: numbers in the state of one stream.
    """

    first: tuple[CausalConv, CausalConv]
    blocks: tuple[tuple[RateCondition, UpsamplingBlock], ...]
    last_snake: Snake
    last_conv: CausalConv
    patch_size: int
    row_size: int

    @classmethod
    def of(cls, weights: Weights, config: VoxCPM2Config) -> "VAEDecoder":
        """Build the decoder from `antiphon.families.voxcpm2.audio_vae_stages.vae_weights`."""
        vae, builder = config.vae, LayerBuilder(weights)
        narrow = CausalConv.of(builder, "decoder.model.0", groups=vae.latent_dim)
        first = (narrow, CausalConv.of(builder, "decoder.model.1"))
        blocks = []
        for index, rate, _ in decoder_blocks(vae):
            condition = RateCondition.of(weights, index, vae.sample_rate_bin)
            name = f"decoder.model.{index}.block"
            blocks.append((condition, upsampling_of(builder, name, rate, is_depthwise=True)))
        last, _ = last_layer(vae)
        last_conv = CausalConv.of(builder, f"decoder.model.{last + 1}")
        return cls(
            first=first,
            blocks=tuple(blocks),
            last_snake=snake_of(weights, f"decoder.model.{last}"),
            last_conv=last_conv,
            patch_size=config.patch_size,
            row_size=builder.layout.row_size,
        )

    def open(self, num_slots: int) -> DecoderState:
        weight = self.last_conv.weight
        positions = weight.new_zeros(num_slots, dtype=torch.int64)
        return DecoderState(weight.new_zeros(num_slots, self.row_size), positions)

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
            x = block(condition(x), history)
        return self.last_conv(self.last_snake(x), history).squeeze(2).tanh()


@dataclass(frozen=True, slots=True)
class EncoderUnit:
    """Residual unit of two activated convolutions, the first one dilated."""

    snakes: tuple[Snake, Snake]
    convs: tuple[PaddedConv, PaddedConv]

    @classmethod
    def of(cls, weights: Weights, name: str, dilation: int, channels: int) -> "EncoderUnit":
        first = PaddedConv.of(weights, f"{name}.1.conv", dilation=dilation, groups=channels)
        snakes = [snake_of(weights, f"{name}.{index}", is_column=True) for index in (0, 2)]
        return cls((snakes[0], snakes[1]), (first, PaddedConv.of(weights, f"{name}.3.conv")))

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
                EncoderUnit.of(weights, f"{name}.{unit}.block", dilation, channels)
                for unit, dilation in enumerate(DILATIONS)
            )
            snake = snake_of(weights, f"{name}.{len(units)}", is_column=True)
            shorten = PaddedConv.of(weights, f"{name}.{len(units) + 1}.conv", stride=rate)
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
