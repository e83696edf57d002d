"""What a checkpoint takes, against what its tensors and its decoder's state really take."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from antiphon.families.fish_speech.checkpoint import decoder_flop, footprint, frame_products
from antiphon.families.fish_speech.codec_schema import CodecSizes
from antiphon.families.fish_speech.sizes import make_checkpoint
from tests.families.fish_speech.random_checkpoint import TINY_CODEC, decoder_in


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of S2's published sizes, without weights."""
    path = tmp_path_factory.mktemp("s2-pro")
    make_checkpoint(path, size="s2-pro")
    return path


def test_the_published_model_is_as_large_as_it_is_said_to_be(published: Path) -> None:
    found = footprint(published)
    codec_bytes = 4 * 391e6
    assert (found.weight_bytes - codec_bytes) / 2 == pytest.approx(4.6e9, rel=0.05)
    assert found.position_bytes == 2 * 36 * 2 * 8 * 128
    assert found.frames_per_s == pytest.approx(21.5, abs=0.1)


def test_a_pass_of_the_fast_model_is_counted_for_each_codebook(
    made: Callable[[str], Path],
) -> None:
    names = [each.weight for each in frame_products(made("s1"))]
    assert names.count("fast.head") == names.count("fast.0.qkv") == 9
    assert names.count("slow.0.qkv") == names.count("projection") == 1


def test_the_decoder_is_counted_as_it_is(made: Callable[[str], Path]) -> None:
    decoder, sizes = decoder_in(made("s2")), TINY_CODEC
    count = FlopCounterMode(display=False)
    with count:
        decoder.decode_whole(torch.zeros(1, 10, 32, dtype=torch.int64))
    counted = count.get_total_flops() / 32
    assert decoder_flop(sizes) == pytest.approx(counted, rel=0.1)
    assert decoder_flop(CodecSizes()) == pytest.approx(6.76e9, rel=0.01)
