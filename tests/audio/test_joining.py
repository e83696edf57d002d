"""Segments joined: the same however they are cut, no step at seams, pauses of the right length."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from antiphon.audio.joining import Joiner
from antiphon.contracts.types import Samples

RATE_HZ = 8000
FADE = 40


def joined(
    segments: list[Samples], pauses_s: list[float | None], piece: int = 10**6
) -> list[Samples]:
    """Return what each segment adds, cut into pieces on its way in."""
    joiner = Joiner(RATE_HZ)
    added = []
    for index, (samples, pause_s) in enumerate(zip(segments, pauses_s, strict=True)):
        parts = [joiner.begin(pause_s, has_next=index + 1 < len(segments))]
        pieces = range(0, len(samples), piece)
        parts += [joiner.push(samples[start : start + piece]) for start in pieces]
        added.append(np.concatenate([*parts, joiner.end()]))
    return added


def ones(num_samples: int) -> Samples:
    return np.ones(num_samples, np.float32)


@given(
    st.lists(st.integers(0, 200), min_size=1, max_size=4),
    st.integers(1, 90),
    st.sampled_from([0.0, 0.01, 0.1]),
)
def test_a_stream_is_the_same_however_it_is_cut(
    lengths: list[int], piece: int, pause_s: float
) -> None:
    random = np.random.default_rng(0)
    segments = [random.uniform(-1, 1, length).astype(np.float32) for length in lengths]
    pauses_s = [None, *[pause_s] * (len(segments) - 1)]
    whole, cut = joined(segments, pauses_s), joined(segments, pauses_s, piece)
    for left, right in zip(whole, cut, strict=True):
        np.testing.assert_array_equal(left, right)
    num_samples = sum(map(len, whole))
    assert num_samples >= sum(lengths), "something is lost"


def test_what_is_alone_leaves_as_it_came() -> None:
    (alone,) = joined([ones(100)], [None], piece=7)
    np.testing.assert_array_equal(alone, ones(100))


def test_a_seam_is_faded_on_both_sides_and_only_there() -> None:
    first, second = joined([ones(200), ones(200)], [None, 0.0])
    assert abs(first[-1]) < 0.01 > abs(second[0])
    assert np.abs(np.diff(np.concatenate([first, second]))).max() < 0.05, "a step would click"
    np.testing.assert_array_equal(first[:-FADE], ones(200 - FADE))
    np.testing.assert_array_equal(second[FADE:], ones(200 - FADE))


def test_quiet_ends_count_to_the_pause() -> None:
    loud_then_quiet = np.concatenate([ones(100), np.zeros(300, np.float32)])
    for pause_s, num_missing in [(0.1, 500), (0.0375, 0), (0.01, 0)]:
        first, second = joined([loud_then_quiet, ones(100)], [None, pause_s])
        assert len(first) == 400
        assert len(second) == 100 + num_missing
        np.testing.assert_array_equal(second[:num_missing], np.zeros(num_missing))
