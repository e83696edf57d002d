"""The codec's decoder as a GPU runs it: few kernels, the state read in place.

In float32 by products of halves (`antiphon.nn.kernels.split`): float16 alone leaves 53 dB of signal
over noise, with random weights of the published sizes.
"""

import torch

from antiphon.models.fish_speech.codec import DacNetwork
from antiphon.nn.codec_layers.fused import (
    FusedAttentionLayer,
    FusedConvNeXtBlock,
    KernelLayout,
    fused_blocks,
)
from antiphon.nn.codec_layers.fused_decoder import FusedDecoder
from antiphon.nn.codec_layers.windowed import WindowedDecoder
from antiphon.nn.layers import RMSNorm


def fused(decoder: WindowedDecoder, dtype: torch.dtype = torch.float32) -> FusedDecoder:
    """Lay out a float32 decoder's weights on its GPU.

    Args:
        decoder: of which next to nothing is kept.
        dtype: of activations and states, see `KernelLayout`.
    """
    layout, network = KernelLayout(dtype), decoder.network
    assert isinstance(network, DacNetwork)
    transformer = network.transformer
    norm = transformer.norm
    assert isinstance(norm, RMSNorm)
    norms = (norm, *(None for _ in network.upsamplings[1:]))
    return FusedDecoder(
        tables=layout.tables(network.tables),
        radians=transformer.frequencies.halves,
        is_rotation_rounded=True,
        entry=(),
        layers=tuple(FusedAttentionLayer.of(layer, layout) for layer in transformer.layers),
        output=None,
        norm_epsilon=norm.epsilon,
        doublings=tuple(
            FusedConvNeXtBlock.of(upsample, refine, layout, before)
            for (upsample, refine), before in zip(network.upsamplings, norms, strict=True)
        ),
        widen=layout.conv(network.widen),
        first_snake=network.blocks[0].snake,
        blocks=fused_blocks(network.blocks, network.last_snake, layout),
        last_conv=layout.exact_conv(network.last_conv),
        bound="tanh",
        max_frames=decoder.num_keys - decoder.window + 1,
        row_size=layout.state.row_size,
    )
