"""Encoder stage: the codec's encoder from whole recordings to frames of codes."""

from dataclasses import dataclass
from math import prod

import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor

from antiphon.contracts.family import LoadContext
from antiphon.families.fish_speech.codec import codebook_names, transformer_of
from antiphon.families.fish_speech.codec_schema import ENCODER_WINDOW, FRAME_WINDOW, CodecSizes
from antiphon.families.fish_speech.config import SAMPLE_RATE_HZ, load_config
from antiphon.families.fish_speech.options import MAX_REFERENCE_S
from antiphon.families.fish_speech.weights import ENCODER, codec_sizes, codec_weights
from antiphon.families.kit.cloned_voices import CODES, RecordingLimits
from antiphon.families.kit.dac.layers import snake_of, units_of
from antiphon.families.kit.loading import weights_for
from antiphon.families.kit.voice_encoder import ClonedVoiceEncoder
from antiphon.nn.codec_layers.conv import (
    CausalConv,
    ConvNeXtBlock,
    LayerBuilder,
    PaddedConv,
    ResidualUnit,
)
from antiphon.nn.codec_layers.state import EmptyHistory, History
from antiphon.nn.codec_layers.transformer import CodecTransformer
from antiphon.nn.layers import Linear, Snake, Weights
from antiphon.nn.padded_batches import PaddedBatches, PaddedPass


@dataclass(frozen=True, slots=True)
class _Block:
    """Residual units and a downsampling to wider steps, ``[B, t, channels]``."""

    units: tuple[ResidualUnit, ...]
    snake: Snake
    shorten: PaddedConv
    transformer: CodecTransformer | None

    @classmethod
    def of(cls, builder: LayerBuilder, sizes: CodecSizes, block: int) -> "_Block":
        name, transformer = f"encoder.block.{block + 1}.block", None
        if sizes.encoder_layers[block]:
            transformer = transformer_of(builder, f"{name}.5", sizes.encoder_config(block))
        return cls(
            units_of(builder, name, 0),
            snake_of(builder.weights, f"{name}.3"),
            PaddedConv.of(builder.weights, f"{name}.4.conv", stride=sizes.strides[block]),
            transformer,
        )

    def __call__(self, x: Tensor, history: History) -> Tensor:
        for unit in self.units:
            x = unit(x, history)
        x = _shortened(self.snake(x), self.shorten)
        if self.transformer is None:
            return x
        return self.transformer(x, EmptyHistory(x.shape[1], ENCODER_WINDOW, x.device))


@dataclass(frozen=True, slots=True)
class _Codebook:
    """Quantizer to the code whose vector has the highest cosine similarity.

    Attributes:
        down: projection from a frame to the codebook's dimension.
        table: normalised vectors, ``[num_codes, codebook_dim]``.
        up: projection back to a frame.
    """

    down: Linear
    table: Tensor
    up: Linear

    @classmethod
    def of(cls, weights: Weights, name: str) -> "_Codebook":
        down, up = (
            Linear(weights[f"{name}.{part}.weight"].squeeze(2), weights[f"{name}.{part}.bias"])
            for part in ("in_proj", "out_proj")
        )
        return cls(down, weights[f"{name}.codebook.weight"], up)

    def __call__(self, frames: Tensor) -> tuple[Tensor, Tensor]:
        """Return the codes of frames, ``[n, width]``, and the quantized frames."""
        directions = F.normalize(self.down(frames)) @ F.normalize(self.table).T
        codes = directions.argmax(dim=1)
        return codes, self.up(self.table[codes])


@dataclass(frozen=True, slots=True)
class DacEncoder:
    """The encoder of whole recordings, one at a time or in a padded batch.

    Attributes:
        codebooks: residual quantizers, in order.
        frame_samples: samples per frame; recordings are padded to a multiple.
    """

    first: CausalConv
    blocks: tuple[_Block, ...]
    last_snake: Snake
    last: CausalConv
    downsamplings: tuple[tuple[PaddedConv, ConvNeXtBlock], ...]
    transformer: CodecTransformer
    codebooks: tuple[_Codebook, ...]
    frame_samples: int

    @classmethod
    def of(cls, weights: Weights, sizes: CodecSizes) -> "DacEncoder":
        """Build the encoder from the codec's tensors; float32, because rounding changes codes."""
        builder, last = LayerBuilder(weights), len(sizes.strides) + 1
        return cls(
            first=CausalConv.of(builder, "encoder.block.0"),
            blocks=tuple(_Block.of(builder, sizes, block) for block in range(len(sizes.strides))),
            last_snake=snake_of(weights, f"encoder.block.{last}"),
            last=CausalConv.of(builder, f"encoder.block.{last + 1}"),
            downsamplings=tuple(
                (
                    PaddedConv.of(weights, f"quantizer.downsample.{index}.0.conv", stride=factor),
                    ConvNeXtBlock.of(builder, f"quantizer.downsample.{index}.1"),
                )
                for index, factor in enumerate(sizes.factors)
            ),
            transformer=transformer_of(builder, "quantizer.pre_module", sizes.frames),
            codebooks=tuple(_Codebook.of(weights, name) for name in codebook_names(sizes)),
            frame_samples=prod(sizes.strides) * prod(sizes.factors),
        )

    @torch.no_grad()
    def encode(self, samples: Tensor) -> Tensor:
        """Encode float32 ``[num_samples]`` to int64 ``[num_frames, num_codebooks]``.

        Samples are mono at the codec's rate; the last frame is padded.
        """
        return self.encode_rows(F.pad(samples, (0, -len(samples) % self.frame_samples))[None])[0]

    @torch.no_grad()
    def encode_rows(self, samples: Tensor) -> Tensor:
        """Encode several recordings; layers are causal, so that padding changes no code.

        Args:
            samples: padded with zeros, float32 ``[B, t]``; ``t`` is a multiple of
                ``frame_samples``.

        Returns:
            int64 ``[B, t / frame_samples, num_codebooks]``; frames after a row's own are
            undefined.
        """
        x = samples[:, :, None]
        history = EmptyHistory(0, None, x.device)  # convolutions need no positions
        x = self.first(x, history)
        for block in self.blocks:
            x = block(x, history)
        x = self.last(self.last_snake(x), history)
        for shorten, refine in self.downsamplings:
            x = refine(_shortened(x, shorten), history)
        x = self.transformer(x, EmptyHistory(x.shape[1], FRAME_WINDOW, x.device))
        rest = x.flatten(0, 1)
        codes = []
        for codebook in self.codebooks:
            found, meant = codebook(rest)
            codes.append(found)
            rest = rest - meant
        return torch.unflatten(torch.stack(codes, dim=1), 0, x.shape[:2])


def _shortened(x: Tensor, conv: PaddedConv) -> Tensor:
    """Apply a strided convolution to ``[B, t, channels]``."""
    return conv(x.transpose(1, 2)).transpose(1, 2)


def load_voice_encoder(context: LoadContext, *, pads: bool | None = None) -> ClonedVoiceEncoder:
    """Load the codec's encoder, whose codes are int64 ``[num_frames, num_codebooks]``.

    ``pads`` is whether recordings are encoded in padded batches; ``None``: only on a GPU. Raises
    ModelLoadError.
    """
    path, how = context.checkpoint, weights_for(context, dtype="float32")
    sizes = codec_sizes(path, load_config(path))
    with codec_weights(path, sizes, ENCODER, **how) as weights:
        encoder = DacEncoder.of(weights, sizes)
    frame = encoder.frame_samples
    codes = PaddedPass(
        lambda samples, _: encoder.encode_rows(samples),
        encoder.encode,
        num_frames=lambda num_samples: -(-num_samples // frame),
    )
    batches = PaddedBatches(
        {CODES: codes},
        how["like"].device,
        sample_rate_hz=SAMPLE_RATE_HZ,
        samples_per_frame=frame,
        captures=False,
        pads=pads,
    )
    return ClonedVoiceEncoder(batches, RecordingLimits(SAMPLE_RATE_HZ, MAX_REFERENCE_S), [CODES])
