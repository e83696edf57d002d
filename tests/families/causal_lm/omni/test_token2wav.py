"""Codes become audio block by block: like the whole, and the same however they come."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from antiphon.contracts.family import LoadContext
from antiphon.engine.plan import FRAME_STORE_FRAMES, CodecChunk

torch = pytest.importorskip("torch", reason="needs the extra 'torch'")

from antiphon.families.causal_lm.omni.token2wav import Token2Wav, load_token2wav  # noqa: E402

GROUP = 4
HOP = 30  # samples of a code
ETHAN = {"voice": "Ethan", "seed": 7}


@pytest.fixture(scope="module")
def decoder(context: LoadContext) -> Token2Wav:
    return load_token2wav(context)


def codes_of(seed: int, num_codes: int) -> NDArray[np.int64]:
    return np.random.default_rng(seed).integers(40, size=(num_codes, 1))


def decoded(
    decoder: Token2Wav,
    streams: Sequence[NDArray[np.int64]],
    state: Any = None,
    done: int = 0,
) -> list[NDArray[np.float32]]:
    if state is None:
        state = decoder.open(len(streams))
        for slot in range(len(streams)):
            decoder.reset(state, slot, ETHAN)
    store = np.zeros((len(streams), FRAME_STORE_FRAMES, 1), np.int64)
    parts: list[list[NDArray[np.float32]]] = [[] for _ in streams]
    longest = max(map(len, streams))
    for start in range(done, longest, GROUP):
        chunks = []
        for slot, codes in enumerate(streams):
            for number in range(start, min(start + 2 * GROUP, len(codes))):
                store[slot, number % FRAME_STORE_FRAMES] = codes[number]
            if start < len(codes):
                end = len(codes) if start + 2 * GROUP > len(codes) else None
                chunks.append(CodecChunk(slot, start, GROUP, end))
        for slot, audio in decoder.launch(chunks, store, state).result().items():
            assert len(audio) == GROUP * HOP
            parts[slot].append(audio)
    sizes = [(len(codes) - done) * HOP for codes in streams]
    return [np.concatenate(each)[:size] for each, size in zip(parts, sizes, strict=True)]


def official(
    reference: Any, decoder: Token2Wav, codes: NDArray[np.int64], monkeypatch: pytest.MonkeyPatch
) -> NDArray[np.float32]:
    """Return the whole audio of transformers, from the noise of ours."""
    state = decoder.open(1)
    decoder.reset(state, 0, ETHAN)
    noise = [decoder.noise(state.row(0), block) for block in range(-(-len(codes) // GROUP))]
    drawn = torch.from_numpy(np.concatenate(noise)[None, : 2 * len(codes)])
    monkeypatch.setattr(torch, "randn", lambda *_, **__: drawn)
    speaker = reference.speaker_map["Ethan"]
    with torch.inference_mode():
        ids = torch.from_numpy(codes.T)
        audio = reference.token2wav(ids, speaker["cond"], speaker["ref_mel"])
    samples: NDArray[np.float32] = audio.numpy()
    return samples


@pytest.mark.parametrize("num_codes", [3, 8])
def test_short_audio_is_that_of_transformers(
    reference: Any, decoder: Token2Wav, num_codes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    codes = codes_of(1, num_codes)
    (audio,) = decoded(decoder, [codes])
    expected = official(reference, decoder, codes, monkeypatch)
    assert audio.std() > 0.01
    np.testing.assert_allclose(audio, expected, rtol=0, atol=1e-4)


def test_long_audio_is_near_that_of_transformers(
    reference: Any, decoder: Token2Wav, monkeypatch: pytest.MonkeyPatch
) -> None:
    codes = codes_of(2, 18)
    (audio,) = decoded(decoder, [codes])
    expected = official(reference, decoder, codes, monkeypatch)
    snr_db = 10 * np.log10(np.square(expected).sum() / np.square(audio - expected).sum())
    assert snr_db > 20


def test_streams_are_the_same_beside_others_and_after_a_move(decoder: Token2Wav) -> None:
    one, other = codes_of(3, 14), codes_of(4, 9)
    (alone,) = decoded(decoder, [one])
    both = decoded(decoder, [other, one])
    np.testing.assert_array_equal(both[1], alone)
    state = decoder.open(1)
    decoder.reset(state, 0, ETHAN)
    decoder.replay(state, 0, one[: 2 * GROUP + GROUP], num_ahead=GROUP)
    (rest,) = decoded(decoder, [one], state, done=2 * GROUP)
    np.testing.assert_array_equal(rest, alone[2 * GROUP * HOP :])


def test_a_seed_and_a_voice_are_heard(decoder: Token2Wav) -> None:
    codes = codes_of(5, 4)
    heard = []
    for voice, seed in (("Ethan", 7), ("Ethan", 8), ("Chelsie", 7), ("Ethan", 7)):
        state = decoder.open(1)
        decoder.reset(state, 0, {"voice": voice, "seed": seed})
        heard += decoded(decoder, [codes], state)
    np.testing.assert_array_equal(heard[0], heard[3])
    assert not np.allclose(heard[0], heard[1], atol=1e-3)
    assert not np.allclose(heard[0], heard[2], atol=1e-3)


def test_a_slot_forgets_the_stream_before(decoder: Token2Wav) -> None:
    first, second = codes_of(1, 10), codes_of(2, 10)
    (wanted,) = decoded(decoder, [second])
    state = decoder.open(1)
    decoder.reset(state, 0, ETHAN)
    decoded(decoder, [first], state)
    decoder.reset(state, 0, ETHAN)
    (found,) = decoded(decoder, [second], state)
    np.testing.assert_array_equal(found, wanted)
