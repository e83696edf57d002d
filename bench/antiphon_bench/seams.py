"""Detection of audible faults in a stream, from its audio alone.

A stream of speech is cut into pieces by a server, by its client, or by what lies between; what goes
wrong goes wrong at a seam. The pieces are given as they came. What is looked for does not occur in
speech, natural or synthetic: the same 10 ms twice, to the last percent; an edge that a linear
prediction from both sides does not expect; silence within a millisecond of a loud sound. Tones that
a machine makes do repeat: this is for speech. A fault that leaves no trace in the audio, as a word
that was left out in a pause, is not found.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Literal, TypeAlias

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Signal: TypeAlias = NDArray[np.float64]
FaultKind: TypeAlias = Literal[
    "replay", "cumulative", "missing", "truncation", "gap", "click", "altered", "rate"
]
"""``replay``: earlier audio is repeated; ``cumulative``: a piece holds all before it
where it should hold what is new; ``missing``: a part is left out; ``truncation``: the stream begins
or ends midway; ``gap``: silence inside a sound; ``click``: an edge; ``altered``: other audio than
should have come; ``rate``: it plays at another rate than it was made for."""

MATCH_S = 0.010
"""Length of audio that is unique within its stream, in seconds."""
SAME = 0.015
"""Relative distance of two signals that count as one; speech repeats itself to 0.034 at best."""
LOUD = 0.003
"""Root mean square, of full scale, below which nothing is compared: 16-bit steps would matter."""
_BACK_S = 10.0
_EDGE_PEAK = 0.02
_EDGE_S = 0.001
_GAP_S = 0.002
_DIGITAL_SILENCE = 1.5 / 32768
_END_S = 0.005
_ORDER = 32
_CLICK_WINDOW_S = 0.02
_CLICK_RATIO = 2.5
_CLICK_RATIO_ANYWHERE = 5.0
"""Of edges that were looked for: the sharpest of clean speech are 3.7 times those around them."""
_CLICK_FLOOR = 0.003


@dataclass(frozen=True, slots=True)
class SeamFault:
    """One fault.

    Attributes:
        at_s: position in the stream.
        duration_s: duration of the surplus or missing audio; 0 for an edge.
    """

    kind: FaultKind
    at_s: float
    description: str
    duration_s: float = 0.0


def seam_faults(
    pieces: Sequence[NDArray[np.floating]],
    sample_rate_hz: int,
    *,
    edges: Sequence[int] | None = None,
) -> list[SeamFault]:
    """Return the audible faults in a stream of mono speech, by time.

    Args:
        pieces: samples in [-1, 1] as they came, each of shape ``[num_samples]``.
        edges: positions to check for clicks; default: the borders of the pieces. For a file whose
            borders are unknown, use `click_candidates`.
    """
    signal, borders = joined(pieces)
    found: list[SeamFault] = []
    for lengths, border in zip(pairwise(map(len, pieces)), borders, strict=True):
        fault = _repetition(signal, border, lengths, sample_rate_hz)
        if fault is not None:
            found.append(fault)
    found += _gaps(signal, sample_rate_hz)
    # An edge that another fault makes is no fault of its own.
    explained = [fault.at_s for fault in found] + [
        fault.at_s + fault.duration_s for fault in found if fault.kind == "gap"
    ]
    least = _CLICK_RATIO if edges is None else _CLICK_RATIO_ANYWHERE
    for at, ratio in _clicks(signal, borders if edges is None else edges, sample_rate_hz, least):
        at_s = at / sample_rate_hz
        if all(abs(at_s - each) > _EDGE_S for each in explained):
            found.append(SeamFault("click", at_s, f"an edge {ratio:.1f} times those around it"))
            explained.append(at_s)
    found += _ends(signal, sample_rate_hz)
    return sorted(found, key=lambda fault: fault.at_s)


def click_candidates(signal: Signal, sample_rate_hz: int) -> list[int]:
    """Return the click candidates: the sharpest edge of each 10 ms."""
    size = round(MATCH_S * sample_rate_hz)
    sharpness = np.abs(np.diff(signal, 3))
    rows = sharpness[: len(sharpness) // size * size].reshape(-1, size)
    sharpest = np.arange(len(rows)) * size + rows.argmax(axis=1)
    return [int(at) + late for at in sharpest for late in (1, 2)]


def joined(pieces: Sequence[NDArray[np.floating]]) -> tuple[Signal, list[int]]:
    """Return the whole signal, and where each piece but the first begins."""
    borders = list(accumulate(len(piece) for piece in pieces))[:-1]
    if not pieces:
        return np.zeros(0), []
    return np.concatenate(pieces).astype(np.float64), borders


def places_of(template: Signal, signal: Signal, tolerance: float = SAME) -> NDArray[np.int64]:
    """Return where in ``signal`` the same as ``template`` begins; nowhere if it is silent."""
    length = len(template)
    energy = float(template @ template)
    if length == 0 or length > len(signal) or energy < length * LOUD**2:
        return np.zeros(0, np.int64)
    size = 1 << (len(signal) + length - 1).bit_length()
    spectrum = np.fft.rfft(signal, size) * np.conj(np.fft.rfft(template, size))
    products = np.fft.irfft(spectrum, size)[: len(signal) - length + 1]
    sums = np.concatenate([[0.0], np.cumsum(signal * signal)])
    distances = energy + (sums[length:] - sums[:-length]) - 2 * products
    return np.flatnonzero(distances <= tolerance**2 * energy)


def num_equal(first: Signal, second: Signal, block: int, tolerance: float = SAME) -> int:
    """Return for how many samples two signals go on alike, in whole blocks."""
    length = min(len(first), len(second)) // block * block
    ours, theirs = (each[:length].reshape(-1, block) for each in (first, second))
    distance = np.sqrt(np.mean((ours - theirs) ** 2, axis=1))
    level = np.sqrt(np.mean(ours**2, axis=1))
    unequal = np.flatnonzero(distance > tolerance * np.maximum(level, LOUD))
    return int(unequal[0]) * block if len(unequal) else length


def _repetition(
    signal: Signal, border: int, lengths: tuple[int, int], rate_hz: int
) -> SeamFault | None:
    """Return the fault if the piece at ``border`` begins with earlier audio of the stream.

    Args:
        border: index of the piece's first sample.
        lengths: lengths of the piece before it, and of the piece.
    """
    length = round(MATCH_S * rate_hz)
    block = max(1, length // 10)
    before, piece = signal[border - lengths[0] : border], signal[border : border + lengths[1]]
    start = _first_loud(piece, length)
    if start is None:
        return None
    holds_all = num_equal(before, piece, block) >= len(before) - block
    if holds_all and len(piece) > len(before) >= start + length:
        description = f"the {len(before) / rate_hz * 1000:.0f} ms before it are its beginning"
        return SeamFault("cumulative", border / rate_hz, description, len(before) / rate_hz)
    from_ = max(0, border - round(_BACK_S * rate_hz))
    earlier = signal[from_ : border + start + length - 1]
    places = places_of(piece[start : start + length], earlier)
    if not len(places):
        return None
    place = int(places[-1]) + from_
    again_s = (start + num_equal(signal[place:border], piece[start:], block)) / rate_hz
    description = f"{again_s * 1000:.0f} ms repeated at {max(0, place - start) / rate_hz:.3f} s"
    return SeamFault("replay", border / rate_hz, description, again_s)


def _first_loud(piece: Signal, length: int) -> int | None:
    """Return where the first stretch of a piece begins that is loud enough to be found again."""
    for start in range(0, len(piece) - length + 1, length):
        part = piece[start : start + length]
        if float(part @ part) >= length * LOUD**2:
            return start
    return None


def _clicks(
    signal: Signal, edges: Sequence[int], rate_hz: int, least: float
) -> Iterator[tuple[int, float]]:
    """Yield edges that audio on both sides does not predict, with how far out they are."""
    width = round(_CLICK_WINDOW_S * rate_hz)
    for at in edges:
        left, right = signal[max(0, at - width) : at], signal[at : at + width]
        if min(len(left), len(right)) < 4 * _ORDER:
            continue
        windows = np.concatenate([sliding_window_view(side, _ORDER + 1) for side in (left, right)])
        past, now = windows[:, :_ORDER], windows[:, _ORDER]
        products = past.T @ past
        products += np.eye(_ORDER) * (np.trace(products) / _ORDER * 1e-5 + 1e-9)
        weights = np.linalg.solve(products, past.T @ now)
        usual = float(np.abs(now - past @ weights).max())
        across = sliding_window_view(signal[at - _ORDER : at + 4], _ORDER + 1)
        edge = float(np.abs(across[:, _ORDER] - across[:, :_ORDER] @ weights).max())
        if edge > _CLICK_FLOOR and edge > least * usual:
            yield at, edge / max(usual, 1e-9)


def _gaps(signal: Signal, rate_hz: int) -> Iterator[SeamFault]:
    """Yield runs of digital silence with a loud sound right before or after them."""
    is_silent = np.abs(signal) <= _DIGITAL_SILENCE
    changes = np.flatnonzero(np.diff(np.concatenate([[False], is_silent, [False]]).astype(int)))
    near = round(_EDGE_S * rate_hz)
    for begin, end in changes.reshape(-1, 2):
        before, after = signal[max(0, begin - near) : begin], signal[end : end + near]
        loudest = max(
            (float(np.abs(side).max()) for side in (before, after) if len(side)), default=0
        )
        inside = begin > 0 and end < len(signal)
        if inside and end - begin >= _GAP_S * rate_hz and loudest > _EDGE_PEAK:
            silence_s = float(end - begin) / rate_hz
            description = f"{silence_s * 1000:.0f} ms of silence inside a sound"
            yield SeamFault("gap", float(begin) / rate_hz, description, silence_s)


def _ends(signal: Signal, rate_hz: int) -> Iterator[SeamFault]:
    num_samples = max(1, round(_END_S * rate_hz))
    if not len(signal):
        yield SeamFault("truncation", 0.0, "there is no audio")
        return
    if float(np.abs(signal[: num_samples // 5 or 1]).max()) > _EDGE_PEAK:
        yield SeamFault("truncation", 0.0, "the stream begins midway")
    if float(np.abs(signal[-num_samples:]).max()) > _EDGE_PEAK:
        yield SeamFault("truncation", len(signal) / rate_hz, "the stream ends midway")
