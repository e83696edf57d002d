"""PlaybackSummary arithmetic agrees with a player that is played through second by second."""

from hypothesis import given
from hypothesis import strategies as st

from antiphon_bench.playback import begins_s, halts_s, underrun_s

# Multiples of 1/64 are exact in binary: sums and differences are too, and equality can be asked.
TICKS = st.integers(0, 640).map(lambda ticks: ticks / 64)
PIECES = st.lists(st.tuples(TICKS, st.integers(0, 64).map(lambda ticks: ticks / 64)), min_size=1)


def unzipped(pieces: list[tuple[float, float]]) -> tuple[list[float], list[float]]:
    """Return arrival times in order, and durations."""
    return sorted(arrival_s for arrival_s, _ in pieces), [duration_s for _, duration_s in pieces]


def halts_of_a_player(
    arrivals_s: list[float], durations_s: list[float], prebuffer_s: float
) -> float:
    clock_s = begins_s(arrivals_s, durations_s, prebuffer_s)
    halted_s = 0.0
    for arrival_s, duration_s in zip(arrivals_s, durations_s, strict=True):
        wait_s = max(0.0, arrival_s - clock_s) if duration_s else 0.0
        halted_s += wait_s
        clock_s += wait_s + duration_s
    return halted_s


@given(PIECES, TICKS)
def test_halts_are_those_of_a_player(pieces: list[tuple[float, float]], prebuffer_s: float) -> None:
    arrivals_s, durations_s = unzipped(pieces)
    found_s = underrun_s(arrivals_s, durations_s, prebuffer_s)
    assert found_s == halts_of_a_player(arrivals_s, durations_s, prebuffer_s)


@given(PIECES, TICKS)
def test_nobody_halts_who_waits_for_everything(
    pieces: list[tuple[float, float]], later_s: float
) -> None:
    arrivals_s, durations_s = unzipped(pieces)
    assert underrun_s(arrivals_s, durations_s, sum(durations_s)) == 0
    shifted_s = [arrival_s + later_s for arrival_s in arrivals_s]
    assert underrun_s(shifted_s, durations_s) == underrun_s(arrivals_s, durations_s)


@given(PIECES)
def test_playback_begins_when_enough_is_there(pieces: list[tuple[float, float]]) -> None:
    arrivals_s, durations_s = unzipped(pieces)
    sounds_s = [
        at_s for at_s, duration_s in zip(arrivals_s, durations_s, strict=True) if duration_s
    ]
    assert begins_s(arrivals_s, durations_s) == [*sounds_s, arrivals_s[-1]][0]
    assert begins_s(arrivals_s, durations_s, sum(durations_s) + 1) == arrivals_s[-1]


def test_a_piece_that_is_late_is_heard_late() -> None:
    assert underrun_s([0.0, 1.0, 3.0], [1.0, 1.0, 1.0]) == 1.0
    assert underrun_s([0.0, 1.0, 3.0], [1.0, 1.0, 1.0], prebuffer_s=2.0) == 0.0
    assert underrun_s([], []) == 0.0


@given(PIECES, TICKS)
def test_nobody_hears_a_piece_without_sound(
    pieces: list[tuple[float, float]], prebuffer_s: float
) -> None:
    """Frames of a decoder that looks ahead come before their sound."""
    arrivals_s, durations_s = unzipped(pieces)
    heard = [pair for pair in zip(arrivals_s, durations_s, strict=True) if pair[1]]
    if sum(durations_s) < prebuffer_s or not heard:
        return  # it begins when the stream is complete, which the last piece says
    only = [at_s for at_s, _ in heard], [duration_s for _, duration_s in heard]
    for of in (begins_s, underrun_s, halts_s):
        assert of(arrivals_s, durations_s, prebuffer_s) == of(*only, prebuffer_s)
