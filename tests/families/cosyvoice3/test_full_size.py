"""Kernels of CosyVoice3's flow and vocoder at their published size."""

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton", reason="Triton is not installed")

from antiphon.families.cosyvoice3.dit_fused import FusedBlocks, FusedPosition
from antiphon.families.cosyvoice3.stream_conv import StreamConv, StreamState
from antiphon.families.cosyvoice3.vocoder import SnakeBlock
from antiphon.families.cosyvoice3.vocoder_fused import FusedSnakeBlock
from antiphon.nn.kernels.chunk_attention import ChunkRows
from antiphon.nn.layers import Linear
from tests.nn.kernels.compiler import CARDS, Card, compiling

USUAL_CARDS = ("H200",)
WIDTH, HEADS, CAPACITY = 1024, 16, 752
pytestmark = pytest.mark.filterwarnings("ignore")  # Triton tells of changes to come


def meta(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.zeros(shape, dtype=dtype, device="meta")


def linear(num_outputs: int, num_inputs: int) -> Linear:
    return Linear(meta(num_outputs, num_inputs), meta(num_outputs))


@pytest.mark.slow  # kernels are compiled for ten seconds
@pytest.mark.parametrize("card", [each for each in CARDS if each.name in USUAL_CARDS], ids=str)
def test_blocks_compile_at_full_size(card: Card, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = compiling(monkeypatch, card)
    block = (
        linear(3 * WIDTH, WIDTH),
        linear(WIDTH, WIDTH),
        linear(2 * WIDTH, WIDTH),
        linear(WIDTH, 2 * WIDTH),
    )
    blocks = FusedBlocks.of([block, block], meta(10, 2, 6, WIDTH), meta(10, 2, WIDTH), 1e-6)
    context = meta(2, 3, 2, CAPACITY, 2, HEADS, WIDTH // HEADS, dtype=torch.float16)
    for num_rows in (1, 16):
        turns = meta(num_rows, 50, WIDTH // HEADS // 2)
        where = ChunkRows(meta(num_rows, 5, dtype=torch.int64), turns, turns, 50, 250)
        states = meta(num_rows * 2 * 50, WIDTH)
        assert blocks(0, states, context, where).shape == states.shape
    conv = StreamConv("conv", meta(WIDTH, WIDTH // HEADS, 31), meta(WIDTH), groups=HEADS)
    position = FusedPosition.of([conv, conv])
    assert position is not None
    for num_rows in (1, 16):
        columns = meta(num_rows * 2, 50, WIDTH)
        assert position(0, columns, StreamState(), None).shape == columns.shape
    expected = {"_place", "_attend_chunks", "_add_modulated_norm", "_grouped_mish"}
    assert expected <= compiler.names
    assert not compiler.too_large()


@pytest.mark.slow  # likewise
@pytest.mark.parametrize("card", [each for each in CARDS if each.name in USUAL_CARDS], ids=str)
def test_blocks_of_the_vocoder_compile_at_full_size(
    card: Card, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = compiling(monkeypatch, card)
    for width, length in ((256, 400), (64, 6000)):
        weights = {f"b.convs{part}.0.weight": meta(width, width, 11) for part in (1, 2)}
        weights |= {f"b.convs{part}.0.bias": meta(width) for part in (1, 2)}
        weights |= {f"b.activations{part}.0.alpha": meta(width) for part in (1, 2)}
        block = FusedSnakeBlock.of(SnakeBlock.of(weights, "b", (5,)).pairs, splits_products=True)
        for num_rows in (1, 16):
            state, columns = StreamState(), meta(num_rows, width, length)
            for _ in range(2):
                assert block(columns, state).shape == columns.shape
    assert {"_snake_join", "_split_conv"} <= compiler.names
    assert not compiler.too_large()
