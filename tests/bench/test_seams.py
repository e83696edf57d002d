"""Every fault is planted into real speech, and found; nothing is found where there is none."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from antiphon.audio.utterance import collect
from antiphon.contracts.types import SpeechRequest
from antiphon_bench.seams import FaultKind, SeamFault, seam_faults
from tests.bench.stream_diff import stream_differences
from tests.loops import on_a_loop
from tests.speeches import loaded

Pieces = list[NDArray[np.float64]]

RATE_HZ = 24_000
TEXTS = (
    "Please call Stella and ask her to bring these things from the store.",
    "Stop. Go on, please! Why not? The quick brown fox jumps over the lazy dog.",
)
# The same once more with shorter and longer pieces takes as long again, each.
CHUNKS_MS = (
    pytest.param(20, marks=pytest.mark.slow),
    80,
    pytest.param(333, marks=pytest.mark.slow),
)


@pytest.fixture(scope="module")
@on_a_loop
async def speech() -> list[NDArray[np.float64]]:
    """What the default voice says, in the 16 bits that every stream has."""
    async with loaded("hibari") as service:
        spoken = [await collect(service.stream(SpeechRequest(text, seed=1))) for text in TEXTS]
    return [np.round(each.samples.astype(np.float64) * 32767) / 32767 for each in spoken]


def cut(signal: NDArray[np.float64], chunk_ms: float) -> Pieces:
    size = round(chunk_ms * RATE_HZ / 1000)
    return [signal[start : start + size] for start in range(0, len(signal), size)]


def loud_borders(pieces: Pieces) -> list[int]:
    """Return the pieces within, the one that begins in the loudest sound first."""
    borders = np.cumsum([len(piece) for piece in pieces])[:-2]
    signal = np.concatenate(pieces)
    levels = [np.sqrt(np.mean(signal[at - 240 : at + 240] ** 2)) for at in borders]
    return [int(index) + 1 for index in np.argsort(levels)[::-1]]


def kinds(found: Sequence[SeamFault]) -> set[FaultKind]:
    return {fault.kind for fault in found}


@pytest.mark.parametrize("chunk_ms", CHUNKS_MS)
def test_speech_has_no_faults_however_it_is_cut(
    speech: list[NDArray[np.float64]], chunk_ms: float
) -> None:
    for signal in speech:
        assert seam_faults(cut(signal, chunk_ms), RATE_HZ) == []
        assert stream_differences(signal, signal, RATE_HZ) == []


def replayed_piece(pieces: Pieces, at: int) -> Pieces:
    return [*pieces[: at + 1], *pieces[at:]]


def replayed_end(pieces: Pieces, at: int) -> Pieces:
    """Each piece begins with the last 10 ms of the one before: an overlap was not removed."""
    return [
        pieces[0],
        *(np.concatenate([before[-240:], piece]) for before, piece in pairwise(pieces)),
    ]


def cumulative(pieces: Pieces, at: int) -> Pieces:
    return [np.concatenate(pieces[: number + 1]) for number in range(len(pieces))]


def lost_piece(pieces: Pieces, at: int) -> Pieces:
    return [*pieces[:at], *pieces[at + 1 :]]


def lost_samples(pieces: Pieces, at: int) -> Pieces:
    """Some of every piece is lost, as by a client that takes deltas for cumulative audio."""
    return [piece[37:] for piece in pieces]


def truncated(pieces: Pieces, at: int) -> Pieces:
    return pieces[:at]


def beheaded(pieces: Pieces, at: int) -> Pieces:
    return pieces[at:]


def gapped(pieces: Pieces, at: int) -> Pieces:
    return [*pieces[:at], np.zeros(720), *pieces[at:]]


def clicking(pieces: Pieces, at: int) -> Pieces:
    """Pieces whose ends each have an offset of their own, as of a filter that starts anew."""
    planted = [piece.copy() for piece in pieces]
    for piece in planted[1:]:
        piece[0] += 0.2
    return planted


Plant = Callable[[Pieces, int], Pieces]
BY_EAR: list[tuple[Plant, FaultKind]] = [
    (replayed_piece, "replay"),
    (replayed_end, "replay"),
    (cumulative, "cumulative"),
    (lost_samples, "click"),
    (truncated, "truncation"),
    (beheaded, "truncation"),
    (gapped, "gap"),
    (clicking, "click"),
]
BY_THE_WHOLE: list[tuple[Plant, FaultKind]] = [
    (replayed_piece, "replay"),
    (replayed_end, "replay"),
    (cumulative, "replay"),
    (lost_piece, "missing"),
    (lost_samples, "missing"),
    (truncated, "truncation"),
    (beheaded, "missing"),
    (gapped, "gap"),
    (clicking, "click"),
]


@pytest.mark.parametrize("chunk_ms", CHUNKS_MS)
@pytest.mark.parametrize(("plant", "kind"), BY_EAR)
def test_a_planted_fault_is_heard(
    speech: list[NDArray[np.float64]], plant: Plant, kind: FaultKind, chunk_ms: float
) -> None:
    for signal in speech:
        pieces = cut(signal[: 3 * RATE_HZ // 2], chunk_ms)
        found = seam_faults(plant(pieces, loud_borders(pieces)[0]), RATE_HZ)
        assert kind in kinds(found), found


@pytest.mark.parametrize("chunk_ms", CHUNKS_MS)
@pytest.mark.parametrize(("plant", "kind"), BY_THE_WHOLE)
def test_a_planted_fault_is_a_difference_from_the_whole(
    speech: list[NDArray[np.float64]], plant: Plant, kind: FaultKind, chunk_ms: float
) -> None:
    for signal in (each[: 3 * RATE_HZ // 2] for each in speech):
        pieces = cut(signal, chunk_ms)
        stream = np.concatenate(plant(pieces, loud_borders(pieces)[0]))
        found = stream_differences(stream, signal, RATE_HZ)
        assert kind in kinds(found), found


@pytest.mark.parametrize("rate_hz", [22_050, 16_000, 48_000])
def test_a_wrong_rate_is_found(speech: list[NDArray[np.float64]], rate_hz: int) -> None:
    for signal in speech:
        found = stream_differences(signal, signal, rate_hz, whole_rate_hz=RATE_HZ)
        assert kinds(found) == {"rate"}


def test_other_speech_is_not_the_same(speech: list[NDArray[np.float64]]) -> None:
    first, second = (each[:RATE_HZ] for each in speech)
    assert kinds(stream_differences(first, second, RATE_HZ)) & {"altered", "missing", "click"}
    swapped = (np.round(first * 32767).astype("<i2").byteswap().astype(np.float64)) / 32767
    assert "altered" in kinds(stream_differences(swapped, first, RATE_HZ))


def test_where_a_fault_is_is_told(speech: list[NDArray[np.float64]]) -> None:
    pieces = cut(speech[0], 80)
    at = loud_borders(pieces)[0]
    (heard,) = seam_faults(gapped(pieces, at), RATE_HZ)
    assert heard.at_s == pytest.approx(at * 0.08, abs=0.002)
    (replay,) = stream_differences(np.concatenate(replayed_piece(pieces, at)), speech[0], RATE_HZ)
    assert replay.at_s == pytest.approx((at + 1) * 0.08, abs=0.002)
    assert "80 ms" in replay.description


def test_silence_is_a_truncation() -> None:
    assert kinds(seam_faults([], RATE_HZ)) == {"truncation"}
