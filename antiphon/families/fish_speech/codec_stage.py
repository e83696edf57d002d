"""Decoder stage: the codec of a checkpoint, on a GPU in fused kernels with in-place state."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from antiphon.codec.host.grouped_decoder import GroupedDecoder
from antiphon.codec.host.threaded_decoder import ThreadedDecoder
from antiphon.codec.lockstep_decoder import LockstepDecoder
from antiphon.codec.protocol import StreamingDecoder
from antiphon.contracts.family import LoadContext
from antiphon.families.fish_speech.codec import load_decoder
from antiphon.families.fish_speech.config import SAMPLE_RATE_HZ, SAMPLES_PER_FRAME, load_config
from antiphon.families.fish_speech.weights import DECODER, codec_sizes, codec_weights
from antiphon.families.kit.loading import weights_for
from antiphon.nn import kernels
from antiphon.nn.codec_layers.state import DecoderState
from antiphon.nn.codec_layers.windowed_decoder import WindowedDecoder
from antiphon.nn.layers import RMSNorm

if TYPE_CHECKING:  # needs Triton
    from antiphon.nn.codec_layers.fused_decoder import FusedDecoder


@dataclass(frozen=True, slots=True)
class FrameByFrame:
    """Adapter of a windowed decoder to `antiphon.codec.lockstep_decoder.FrameNetwork`."""

    decoder: WindowedDecoder

    def open(self, num_slots: int) -> DecoderState:
        return self.decoder.open(num_slots)

    def decode(self, frames: Tensor, rows: DecoderState) -> Tensor:
        """Decode one frame per row, int64 ``[num_rows, num_quantizers]``, and advance the rows."""
        return self.decoder.decode(frames[:, :, None], rows)


def load_codec(context: LoadContext) -> StreamingDecoder:
    """Load the decoder from codes to 44.1 kHz audio.

    Computation is in float32. On a GPU products are of split halves, in blocks of single ones;
    but if ``context.dtype`` is float32, layers are PyTorch's, one frame per stream at once.
    Raises ModelLoadError.
    """
    path, how = context.checkpoint, weights_for(context, dtype="float32")
    config = load_config(path)
    sizes = codec_sizes(path, config)
    with torch.inference_mode(), codec_weights(path, sizes, DECODER, **how) as weights:
        decoder = load_decoder(weights, sizes)
    rates = {"sample_rate_hz": SAMPLE_RATE_HZ, "samples_per_frame": SAMPLES_PER_FRAME}
    if how["like"].device.type == "cpu":
        return ThreadedDecoder(GroupedDecoder(decoder, **rates))
    num_codes, progress = config.num_codebooks, context.progress_of("codec graphs")
    if not kernels.run_on(how["like"]) or context.dtype == "float32":
        single = FrameByFrame(decoder)
        return LockstepDecoder(single, frame_size=num_codes, progress=progress, **rates)
    from antiphon.codec.graph_decoder import GraphDecoder

    with torch.inference_mode():
        on_gpu = fused(decoder)
    return GraphDecoder(on_gpu, num_quantizers=num_codes, progress=progress, **rates)


def fused(decoder: WindowedDecoder, num_exact: int = 0) -> "FusedDecoder":
    """Lay out a float32 decoder's weights on its GPU.

    Products of the blocks, nearly all of the arithmetic, are float16, and what they add to is
    float32. Earlier products are float32, split into halves (`antiphon.nn.kernels.split`).

    Args:
        decoder: float32 decoder, of which hardly anything is kept.
        num_exact: number of first blocks whose products are float32 too.
    """
    from antiphon.nn.codec_layers.fused import (
        FusedAttentionLayer,
        FusedConvNeXtBlock,
        KernelLayout,
        fused_blocks,
    )
    from antiphon.nn.codec_layers.fused_decoder import FusedDecoder

    layout, network = KernelLayout(torch.float32), decoder.network
    transformer, blocks = network.transformer, network.blocks
    norm = transformer.norm
    assert isinstance(norm, RMSNorm)
    norms = (norm, *(None for _ in network.upsamplings[1:]))
    layers = tuple(FusedAttentionLayer.of(layer, layout) for layer in transformer.layers)
    doublings = tuple(
        FusedConvNeXtBlock.of(upsample, refine, layout, before)
        for (upsample, refine), before in zip(network.upsamplings, norms, strict=True)
    )
    widen = layout.conv(network.widen)
    snakes = (*(block.snake for block in blocks), network.last_snake)
    exact = fused_blocks(blocks[:num_exact], snakes[1 : num_exact + 1], layout)
    is_mixed = num_exact < len(blocks)
    narrow_layout = KernelLayout(torch.float16, layout) if is_mixed else layout
    narrow = fused_blocks(blocks[num_exact:], snakes[num_exact + 1 :], narrow_layout, torch.float32)
    return FusedDecoder(
        tables=layout.tables(network.tables),
        radians=transformer.frequencies.halves,
        is_rotation_rounded=True,
        entry=(),
        layers=layers,
        output=None,
        norm_epsilon=norm.epsilon,
        doublings=doublings,
        widen=widen,
        first_snake=snakes[0],
        blocks=(*exact, *narrow),
        num_exact=num_exact,
        last_conv=narrow_layout.exact_conv(network.last_conv),
        bound=network.bound,
        max_frames=decoder.max_pass_frames,
        row_size=narrow_layout.row_size,
    )
