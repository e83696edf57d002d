"""Tokens to samples: each once, the same in any company, and the same wherever the end is known."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from antiphon.engine.plan import FRAME_STORE_FRAMES, CodecChunk
from antiphon.models.cosyvoice3.conditioning import reference_arrays
from antiphon.models.cosyvoice3.decoder import CosyVoice3Decoder, SpeechRows
from antiphon.models.cosyvoice3.decoder_stage import load_decoder
from antiphon.models.spec import LoadContext
from antiphon.types import Samples

GROUP, AHEAD, RATIO = 25, 6, 960
TOKENS = np.random.default_rng(0).integers(0, 6561, 400)


@pytest.fixture(scope="module")
def decoder(base: Path) -> CosyVoice3Decoder:
    made = load_decoder(LoadContext(base, device="cpu"))
    assert isinstance(made, CosyVoice3Decoder)
    return made


def voice(num_tokens: int, seed: int = 0) -> dict[str, NDArray[Any]]:
    random = np.random.default_rng(seed)
    return reference_arrays(
        random.integers(0, 6561, num_tokens),
        random.standard_normal((2 * num_tokens, 80), np.float32),
        random.standard_normal(192, np.float32),
    )


def store_of(tokens: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return a store in which all tokens have a place of their own."""
    return np.resize(tokens, (1, 1000))[:, :, None].repeat(2, axis=0)


def chunks_of(num_tokens: int, knows: Callable[[int], bool], slot: int = 0) -> list[CodecChunk]:
    """Plan chunks; ``knows`` tells whether the end is known when one begins."""
    starts = range(0, num_tokens, GROUP)
    return [
        CodecChunk(slot, start, GROUP, num_tokens if knows(start) else None) for start in starts
    ]


def said(
    decoder: CosyVoice3Decoder,
    num_tokens: int,
    reference: dict[str, Any],
    *,
    is_early: bool = False,
) -> Samples:
    rows, store = decoder.open(1), store_of(TOKENS)
    decoder.reset(rows, 0, reference)
    chunks = chunks_of(num_tokens, lambda start: is_early or start + GROUP + AHEAD > num_tokens)
    return np.concatenate([decoder.launch([each], store, rows).result()[0] for each in chunks])


def test_shape(decoder: CosyVoice3Decoder) -> None:
    assert decoder.group_frames == GROUP
    assert decoder.look_ahead_frames == AHEAD
    assert decoder.samples_per_frame == RATIO
    # The store holds a group and its look-ahead, while a step more is made.
    assert max(decoder.chunk_sizes) + AHEAD < FRAME_STORE_FRAMES


@pytest.mark.parametrize("num_tokens", [1, 2, 24, 25, 26, 28, 31, 32, 50, 53, 56, 57])
@pytest.mark.parametrize("num_reference", [0, 30])
def test_the_end_may_be_known_early_or_late(
    decoder: CosyVoice3Decoder, num_tokens: int, num_reference: int
) -> None:
    reference = voice(num_reference)
    late = said(decoder, num_tokens, reference)
    assert len(late) == num_tokens * RATIO
    assert np.isfinite(late).all()
    assert late.std() > 1e-4
    np.testing.assert_array_equal(said(decoder, num_tokens, reference, is_early=True), late)


def test_later_tokens_change_nothing_before_them(decoder: CosyVoice3Decoder) -> None:
    short, long = (said(decoder, number, voice(10)) for number in (81, 110))
    np.testing.assert_array_equal(short[: 50 * RATIO], long[: 50 * RATIO])
    assert not np.array_equal(short[75 * RATIO :], long[75 * RATIO : 81 * RATIO])


def test_rows_are_independent_and_reset(decoder: CosyVoice3Decoder) -> None:
    voices = [voice(12, seed=1), voice(40, seed=2)]
    alone = [said(decoder, 60, each) for each in voices]
    assert not np.array_equal(alone[0], alone[1])
    rows, store = decoder.open(2), store_of(TOKENS)
    decoder.reset(rows, 1, voice(3))
    decoder.launch([CodecChunk(1, 0, GROUP)], store, rows).result()
    for slot, each in enumerate(voices):
        decoder.reset(rows, slot, each)
    plans = zip(*(chunks_of(60, lambda start: start > 25, slot) for slot in (0, 1)), strict=True)
    parts = [decoder.launch([*plan], store, rows).result() for plan in plans]
    for slot in (0, 1):
        together = np.concatenate([part[slot] for part in parts])
        np.testing.assert_array_equal(together, alone[slot])


def test_a_replayed_row_goes_on_as_the_one_that_was_given_up(decoder: CosyVoice3Decoder) -> None:
    whole, store = said(decoder, 90, voice(8)), store_of(TOKENS)
    rows = decoder.open(1)
    decoder.reset(rows, 0, voice(8))
    decoder.replay(rows, 0, TOKENS[: 25 + AHEAD, None], AHEAD)
    decoder.replay(rows, 0, TOKENS[25 : 50 + AHEAD, None], AHEAD)
    last = [decoder.launch([each], store, rows).result()[0] for each in chunks_of(90, bool)[2:]]
    np.testing.assert_array_equal(np.concatenate(last), whole[50 * RATIO :])


def test_a_chunk_costs_the_same_anywhere(decoder: CosyVoice3Decoder) -> None:
    rows, store = decoder.open(1), store_of(TOKENS)
    decoder.reset(rows, 0, voice(20))
    taken: list[int] = []
    for chunk in chunks_of(400, lambda start: start + GROUP + AHEAD > 400)[:-1]:
        decoder.launch([chunk], store, rows).result()
        taken.append(num_bytes(rows))
    assert len(set(taken)) == 1
    decoder.launch([CodecChunk(0, 375, GROUP, 400)], store, rows).result()
    assert num_bytes(rows) < taken[0] / 100  # nothing is kept for a stream that has ended


def num_bytes(rows: SpeechRows) -> int:
    """Add up what a row keeps, of which it attends to a part that has an end too."""
    (stream,) = rows.streams
    assert stream is not None
    kept: Sequence[torch.Tensor] = (stream.samples, *stream.vocoder.kept.values())
    if stream.flow is not None:
        cache = stream.flow.cache
        assert cache.num_seen(50) <= cache.keys_values.shape[5]
        kept = (*kept, cache.keys_values, stream.flow.tokens, *stream.flow.convs.kept.values())
    return sum(each.nbytes for each in kept)


def test_float32_is_not_rounded_to_tf32(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decoder, seen = load_decoder(LoadContext(base, device="cpu")), []
    assert isinstance(decoder, CosyVoice3Decoder)
    decode = CosyVoice3Decoder._decode_group

    def watched(*arguments: Any) -> Any:
        seen.append(torch.backends.cudnn.allow_tf32)
        return decode(*arguments)

    monkeypatch.setattr(CosyVoice3Decoder, "_decode_group", watched)
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    state = decoder.open(1)
    decoder.reset(state, 0, voice(3))
    decoder.launch([CodecChunk(0, 0, GROUP, 3)], store_of(TOKENS[:3]), state)
    assert seen == [False]
    assert torch.backends.cudnn.allow_tf32
