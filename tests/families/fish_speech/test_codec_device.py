"""The decoder for GPUs: as the exact one, whoever else is there and however frames are grouped."""

import re
from collections.abc import Sequence
from functools import cache

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from tests.kernels import DEVICE, why_not_here

if reason := why_not_here():
    pytest.skip(reason, allow_module_level=True)

from antiphon.codec.graph_decoder import GraphDecoder
from antiphon.contracts.types import Samples
from antiphon.engine.plan import CodecChunk
from antiphon.families.fish_speech.codec import load_decoder
from antiphon.families.fish_speech.codec_schema import CodecSizes, codec_layout
from antiphon.families.fish_speech.codec_stage import fused
from antiphon.families.fish_speech.weights import DECODER
from antiphon.nn.codec_layers.windowed_decoder import WindowedDecoder
from antiphon.nn.precision import exact_float32
from tests.families.fish_speech.random_checkpoint import codec_tensor

pytestmark = pytest.mark.gpu

NUM_SLOTS, NUM_FRAMES, SAMPLES_PER_FRAME = 3, 4, 8
MINI = CodecSizes(
    encoder_width=8,
    strides=(2,),
    encoder_layers=(0,),
    latent_width=64,
    frame_layers=1,
    feed_forward_width=96,
    decoder_width=192,
    rates=(2, 2),
    factors=(2,),
    codebook_dim=8,
    semantic_codes=40,
    residual_codes=30,
    num_residual=9,
)
"""One layer of each kind."""


@cache
def exact_decoder() -> WindowedDecoder:
    weights = {
        name: codec_tensor(name, shape, seed=7).to(DEVICE)
        for name, shape in codec_layout(MINI).items()
        if re.fullmatch(DECODER, name)
    }
    return load_decoder(weights, MINI)


@cache
def codes() -> NDArray[np.int64]:
    """Return frames of each slot; some codes are those of no codebook."""
    return np.random.default_rng(0).integers(-1, 42, (NUM_SLOTS, NUM_FRAMES, 10))


def decode(codec: GraphDecoder, groups: Sequence[int], slots: Sequence[int]) -> Samples:
    """Decode the frames of some slots side by side, ``[k, n * SAMPLES_PER_FRAME]``."""
    state, chunks, at = codec.open(NUM_SLOTS), [], 0
    for size in groups:
        made = codec.launch([CodecChunk(slot, at, size) for slot in slots], codes(), state).result()
        chunks.append(np.stack([made[slot] for slot in slots]))
        at += size
    return np.concatenate(chunks, axis=1)


@pytest.mark.parametrize(("num_exact", "min_snr_db"), [(2, 100.0), (0, 50.0)])
def test_audio_is_that_of_the_exact_decoder_in_any_grouping_and_company(
    num_exact: int, min_snr_db: float
) -> None:
    with exact_float32():
        exact = exact_decoder().decode_whole(torch.from_numpy(codes()).transpose(1, 2).to(DEVICE))
    codec = GraphDecoder(
        fused(exact_decoder(), num_exact=num_exact),
        num_quantizers=10,
        sample_rate_hz=44_100,
        samples_per_frame=SAMPLES_PER_FRAME,
    )
    together = decode(codec, [3, 1], range(NUM_SLOTS))
    for row, expected in zip(together, exact.cpu().numpy(), strict=True):
        noise = np.square(row - expected).sum() / np.square(expected).sum()
        assert -10 * np.log10(noise) > min_snr_db
    alone = decode(codec, [1, 3], [1])[0]
    if DEVICE.type == "cuda":
        np.testing.assert_array_equal(alone, together[1])
    else:  # the interpreter adds as NumPy does, by shape
        np.testing.assert_allclose(alone, together[1], atol=2e-3)
