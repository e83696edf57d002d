"""Kernels of a full-size codec, for every card that is served: they compile and fit there."""

from pathlib import Path

import pytest
import torch

pytest.importorskip("triton", reason="Triton is not installed")

from antiphon.families.qwen3_tts.checkpoint import codec_layout
from antiphon.families.qwen3_tts.codec import decoder_of, fused
from antiphon.nn.codec_layers.frame_table import empty_table
from tests.nn.kernels.compiler import CARDS, Card, compiling
from tests.nn.kernels.test_full_size import (
    META,
    NUM_SLOTS,
    USUAL_CARDS,
    full_config,
    meta,
    weights_of,
)

FRAMES = (1, 16, 64, 512)
"""Of a pass: other numbers take the same kernels."""
FEW_FRAMES = (512,)
"""For other cards: the largest tiles. An RTX 3090 is compiled for as an RTX 4090 is."""
pytestmark = pytest.mark.filterwarnings("ignore")  # Triton tells of changes to come


@pytest.mark.slow  # dozens of kernels are compiled
@pytest.mark.parametrize("card", [each for each in CARDS if each.name != "RTX 3090"], ids=str)
def test_the_codec_compiles_at_full_size(
    card: Card, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, compiler = full_config(tmp_path, "1.7b"), compiling(monkeypatch, card)
    weights = weights_of(codec_layout(config), torch.float32)
    decoder = fused(decoder_of(weights, config.codec.decoder))
    state = decoder.open(NUM_SLOTS)
    for num_frames in FRAMES if card.name in USUAL_CARDS else FEW_FRAMES:
        codes = meta(num_frames, config.codec.num_quantizers, dtype=torch.int64)
        decoder.decode(codes, empty_table(num_frames, META), state, 16)
    expected = {"_begin_frames", "_causal_conv", "_attend_window", "_depthwise_norm"}
    assert expected | {"_residual_unit", "_samples"} <= compiler.names
    assert not compiler.too_large()
