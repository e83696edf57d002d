"""Cards of one generation are compiled for alike, so that one stands for all in other tests."""

import re

import pytest
import torch

pytest.importorskip("triton", reason="Triton is not installed")

from antiphon.nn.kernels.fused_linear import FusedLinear, scale
from tests.nn.kernels.compiler import CARDS, compiling
from tests.nn.kernels.test_full_size import meta


@pytest.mark.slow  # a product is compiled for three cards
@pytest.mark.filterwarnings("ignore")  # Triton tells of changes to come
def test_cards_of_one_generation_get_the_same_code(monkeypatch: pytest.MonkeyPatch) -> None:
    cards = [card for card in CARDS if card.generation == 8]
    compiler = compiling(monkeypatch, cards[-1])
    states = scale(meta(64, 2048), meta(2048, dtype=torch.bfloat16))
    FusedLinear().normed(states, meta(2 * 6144, 2048), 1e-6, is_gated=True)
    launch = next(each for each in compiler.launches if each.kernel.fn.__name__ == "wide_product")
    kernels = [launch.compiled(card.capability) for card in cards]
    assert len({each.metadata.shared for each in kernels}) == 1
    # Without the card, and where lines came from: what is cached may be from another checkout.
    first, *others = [re.sub(r"cuda:\d+|(?m:^#loc.*)", "", each.asm["ttgir"]) for each in kernels]
    assert "dot" in first
    assert all(each == first for each in others)
