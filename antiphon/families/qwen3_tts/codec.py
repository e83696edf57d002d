"""Codec decoder: frames to samples, each frame decoded once, for any grouping of frames.

All layers are causal. A `DecoderState` per stream carries a window of keys and values and the
columns before each convolution.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from antiphon.families.qwen3_tts.config import CodecDecoderConfig
from antiphon.nn.codec_layers.conv import CausalConv, CausalTransposedConv, LayerBuilder
from antiphon.nn.codec_layers.conv_blocks import ConvNeXtBlock, UpsamplingBlock
from antiphon.nn.codec_layers.quantizer import CodeTables, codebook
from antiphon.nn.codec_layers.state import (
    DecoderState,
    EmptyHistory,
    History,
    SlotHistory,
    StateLayout,
)
from antiphon.nn.codec_layers.transformer import CodecTransformer
from antiphon.nn.layers import Snake, Weights

_MIN_PASS_FRAMES = 25
_NUM_SEMANTIC = 1
_DILATIONS = (1, 3, 9)
_NUM_KEYS_MULTIPLE = 8  # mask width preferred by attention kernels


@dataclass(frozen=True, slots=True)
class CodecDecoder:
    """Decoder of many streams at once, each at its own position.

    Attributes:
        window: keys visible to a frame, itself included.
        num_keys: size of a ring of keys: a window before the frames of a pass, and these.
        row_size: size of one stream's state, in numbers.
    """

    tables: CodeTables
    pre_conv: CausalConv
    transformer: CodecTransformer
    upsamplings: tuple[tuple[CausalTransposedConv, ConvNeXtBlock], ...]
    widen: CausalConv
    blocks: tuple[UpsamplingBlock, ...]
    last_snake: Snake
    last_conv: CausalConv
    window: int
    num_keys: int
    row_size: int

    @classmethod
    def of(
        cls, weights: Weights, config: CodecDecoderConfig, dtype: torch.dtype = torch.float32
    ) -> "CodecDecoder":
        """Read the decoder from the codec's tensors.

        Args:
            weights: float32 tensors on one device, by their names in the checkpoint.
            config: configuration of the decoder.
            dtype: type of weights, activations and states; activation functions keep float32
                factors.
        """
        window = config.transformer.window
        assert window is not None
        num_keys = window - 1 + _MIN_PASS_FRAMES
        num_keys += -num_keys % _NUM_KEYS_MULTIPLE
        layout = StateLayout()
        builder = LayerBuilder(weights, layout, dtype)
        last = len(config.upsample_rates) + 1
        return cls(
            tables=CodeTables.of(_code_tables(weights, config.num_quantizers), dtype),
            pre_conv=CausalConv.of(builder, "decoder.pre_conv"),
            transformer=CodecTransformer.of(
                builder, "decoder.pre_transformer", config.transformer, num_keys
            ),
            upsamplings=tuple(
                (
                    CausalTransposedConv.of(builder, f"decoder.upsample.{index}.0", ratio),
                    ConvNeXtBlock.of(builder, f"decoder.upsample.{index}.1"),
                )
                for index, ratio in enumerate(config.upsampling_ratios)
            ),
            widen=CausalConv.of(builder, "decoder.decoder.0"),
            blocks=tuple(
                UpsamplingBlock.of(builder, f"decoder.decoder.{index}", rate, _DILATIONS)
                for index, rate in enumerate(config.upsample_rates, 1)
            ),
            last_snake=Snake.of(weights, f"decoder.decoder.{last}"),
            last_conv=CausalConv.of(builder, f"decoder.decoder.{last + 1}"),
            window=window,
            num_keys=num_keys,
            row_size=layout.row_size,
        )

    @property
    def max_pass_frames(self) -> int:
        """Most frames of one pass; `decode` splits longer input into several."""
        return self.num_keys - self.window + 1

    def open(self, num_slots: int) -> DecoderState:
        """Return a state of fresh slots, on the decoder's device."""
        rows = self.tables.rows
        return DecoderState(
            rows.new_zeros((num_slots, self.row_size)),
            rows.new_zeros(num_slots, dtype=torch.int64),
        )

    def reset(self, state: DecoderState, slot: int) -> None:
        """Clear a slot for a new stream."""
        state.reset(slot)

    @torch.no_grad()
    def decode(self, codes: Tensor, state: DecoderState, active: Tensor) -> Tensor:
        """Decode the next frames of the active slots and advance them.

        The host never waits for the device here, and no allocation outlives the call: CUDA graphs
        can capture it.

        Args:
            codes: int64 ``[num_slots, num_quantizers, n]``, ``n`` at least 1; codes outside the
                codebooks are clamped.
            state: state updated in place; inactive slots stay bit-identical.
            active: bool ``[num_slots]``.

        Returns:
            float32 ``[num_slots, n * samples_per_frame]`` in [-1, 1], zeros where not active.
        """
        passes = torch.split(codes, self.max_pass_frames, dim=2)
        audio = torch.cat([self._decode_pass(some, state, active) for some in passes], dim=1)
        return torch.where(active[:, None], audio, 0.0)

    @torch.no_grad()
    def decode_whole(self, codes: Tensor) -> Tensor:
        """Decode whole streams, ``[B, num_quantizers, n]``, in one pass without a state."""
        return self._run(codes, EmptyHistory(codes.shape[2], self.window, codes.device))

    def _decode_pass(self, codes: Tensor, state: DecoderState, active: Tensor) -> Tensor:
        history = SlotHistory(state, active, codes.shape[2], self.window, self.num_keys)
        audio = self._run(codes, history)
        history.advance()
        return audio

    def _run(self, codes: Tensor, history: History) -> Tensor:
        hidden = self.transformer(self.pre_conv(self.tables(codes), history), history)
        for upsample, refine in self.upsamplings:
            hidden = refine(upsample(hidden, history), history)
        hidden = self.widen(hidden, history)
        for block in self.blocks:
            hidden = block(hidden, history)
        hidden = self.last_conv(self.last_snake(hidden), history)
        return hidden.squeeze(2).float().clamp(-1.0, 1.0)


def _code_tables(weights: Weights, num_quantizers: int) -> list[Tensor]:
    """Return the codebooks of all quantizers, projected by the projection of their kind."""
    tables = []
    for kind, number in (("first", _NUM_SEMANTIC), ("rest", num_quantizers - _NUM_SEMANTIC)):
        name = f"decoder.quantizer.rvq_{kind}"
        projection = weights[f"{name}.output_proj.weight"].squeeze(2)
        names = (f"{name}.vq.layers.{index}._codebook" for index in range(number))
        tables += [codebook(weights, each, "embedding_sum") @ projection.T for each in names]
    return tables
