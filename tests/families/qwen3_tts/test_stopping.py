"""Guards end speech that goes nowhere, and let slow, silent or playful speech pass."""

import random
from collections import deque

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.families.qwen3_tts.stopping import LoopDetectors


def alarms(codes: list[list[int]], num_made: int = 0) -> list[int | None]:
    """Return the first alarm of each request, all watched side by side from ``num_made`` on."""
    detectors = LoopDetectors(2048)
    rows = np.array([detectors.open(np.array(each[:num_made], np.int64)) for each in codes])
    found: list[int | None] = [None] * len(codes)
    for at in range(num_made, max(map(len, codes))):
        there = [index for index, each in enumerate(codes) if at < len(each)]
        now = np.array([codes[index][at] for index in there])
        for index, is_alarm in zip(there, detectors.observe(rows[there], now), strict=True):
            if is_alarm and found[index] is None:
                found[index] = at
    return found


def first_alarm(codes: list[int]) -> int | None:
    return alarms([codes])[0]


def reference_alarm(codes: list[int], num_made: int) -> int | None:
    """Find the first alarm by the definition: what the last 100 and 132 codes are."""
    recent: deque[int] = deque(maxlen=132)
    for at, code in enumerate(codes):
        recent.append(code)
        window, known = [*recent][-100:], [*recent]
        is_stuck = len(window) == 100 and len({*window}) <= 4
        is_looping = any(
            known[-100 - period : -period] == window for period in range(1, len(known) - 99)
        )
        if at >= num_made and (is_stuck or is_looping):
            return at
    return None


def speech(num_frames: int, seed: int = 0) -> list[int]:
    rng = random.Random(seed)
    return [rng.randrange(2048) for _ in range(num_frames)]


made_codes = st.lists(
    st.tuples(st.lists(st.integers(0, 5), min_size=1, max_size=40), st.integers(1, 150)),
    max_size=5,
).map(lambda parts: [code for codes, number in parts for code in (codes * number)[:160]])


@settings(deadline=None, max_examples=30)
@given(st.lists(made_codes, min_size=1, max_size=4), st.integers(0, 200))
def test_rows_side_by_side_are_watched_as_one_alone(codes: list[list[int]], made: int) -> None:
    num_made = min(made, *(len(each) for each in codes), 10**6)
    expected = [reference_alarm(each, num_made) for each in codes]
    assert alarms(codes, num_made) == expected


def test_a_row_is_used_again_from_the_beginning() -> None:
    detectors = LoopDetectors(10)
    rows = [detectors.open(np.full(150, 7)) for _ in range(40)]
    assert len({*rows}) == 40
    for row in rows:
        detectors.close(row)
    again = [detectors.open(np.array([], np.int64)) for _ in range(40)]
    assert {*again} == {*rows}
    assert not detectors.observe(np.array(again), np.full(40, 7)).any()


def test_speech_passes() -> None:
    assert first_alarm(speech(3000)) is None


@pytest.mark.parametrize("period", [1, 2, 7, 25, 32])
def test_a_loop_is_found_within_seconds_wherever_it_begins(period: int) -> None:
    before = speech(40, seed=1)
    alarm = first_alarm(before + speech(period, seed=2) * (150 // period + 2))
    assert alarm is not None
    assert len(before) + 90 <= alarm <= len(before) + period + 101


def test_silence_without_end_is_found() -> None:
    rng = random.Random(3)
    silence = [rng.choice([7, 8, 9, 10]) for _ in range(400)]
    alarm = first_alarm(speech(30) + silence)
    assert alarm is not None
    assert 100 <= alarm <= 30 + 100


def test_a_pause_of_five_seconds_passes() -> None:
    assert first_alarm((speech(50) + [7] * 62) * 5) is None


def test_laughter_that_repeats_for_five_seconds_passes() -> None:
    assert first_alarm(speech(50) + [1, 2, 3, 4, 5] * 12 + speech(50, seed=1)) is None
