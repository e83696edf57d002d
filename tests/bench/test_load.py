"""Loads are dealt out to processes without loss, and the same seed gives the same load."""

from dataclasses import replace
from itertools import chain
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.family_check.texts import TEXTS
from antiphon_bench.load import HttpLoad, Target, arrivals_s, begins_s
from antiphon_bench.texts import text_of


def numbers_of(load: HttpLoad) -> list[int]:
    assert load.num_requests is not None
    return [load.first_index + load.stride * each for each in range(load.num_requests)]


@given(st.integers(1, 300), st.integers(0, 500), st.integers(1, 9))
def test_parts_of_a_closed_load_are_the_whole(
    concurrency: int, num_requests: int, num_parts: int
) -> None:
    load = HttpLoad(concurrency=concurrency, num_requests=num_requests)
    parts = load.split(num_parts)
    assert sum(part.concurrency for part in parts) == concurrency
    assert all(part.concurrency for part in parts)
    assert sorted(chain.from_iterable(map(numbers_of, parts))) == list(range(num_requests))


@given(st.integers(0, 60), st.integers(1, 9), st.integers(0, 99))
def test_parts_of_an_open_load_are_the_whole(num_requests: int, num_parts: int, seed: int) -> None:
    load = HttpLoad(rate_hz=20, num_requests=num_requests, seed=seed)
    whole = arrivals_s(load)
    assert len(whole) == num_requests
    assert sorted(chain.from_iterable(map(arrivals_s, load.split(num_parts)))) == whole


@given(st.integers(0, 99), st.floats(0.5, 5))
def test_arrivals_follow_from_the_seed_and_end_in_time(seed: int, duration_s: float) -> None:
    load = HttpLoad(rate_hz=40, duration_s=duration_s, seed=seed)
    first = arrivals_s(load)
    assert first == arrivals_s(load) == sorted(first)
    assert all(0 < each <= duration_s for each in first)
    assert first != arrivals_s(HttpLoad(rate_hz=40, duration_s=duration_s, seed=seed + 1))


@pytest.mark.parametrize("num_parts", [1, 3, 4])
def test_streams_of_all_parts_begin_at_equal_intervals(num_parts: int) -> None:
    load = HttpLoad(concurrency=12, ramp_s=6.0, num_requests=24)
    begins = sorted(each for part in load.split(num_parts) for each in begins_s(part))
    assert begins == pytest.approx([stream / 2 for stream in range(12)])
    assert begins_s(replace(load, ramp_s=0.0)) == [0.0] * 12


def test_the_rate_is_the_mean() -> None:
    times_s = arrivals_s(HttpLoad(rate_hz=20, num_requests=20_000))
    gaps_s = [after - before for before, after in zip([0.0, *times_s], times_s, strict=False)]
    assert abs(fmean(gaps_s) * 20 - 1) < 0.05  # seven standard errors
    # Gaps of a Poisson process are as spread as they are long.
    assert abs(fmean(gap * gap for gap in gaps_s) * 20**2 / 2 - 1) < 0.15


def test_texts_follow_from_seed_and_number() -> None:
    chosen = [text_of(TEXTS, 1, index) for index in range(400)]
    assert chosen == [text_of(TEXTS, 1, index) for index in range(400)]
    assert chosen != [text_of(TEXTS, 2, index) for index in range(400)]
    assert set(chosen) == set(TEXTS)
    assert sorted(TEXTS, key=len)[0] == TEXTS[0]
    assert len(set(TEXTS)) == len(TEXTS) == 30


def test_answers_are_cut_at_lengths_that_follow_from_the_number() -> None:
    target = Target(host="here", port=1, frames=(5, 9))
    lengths = [target.lengths(index)["max_new_tokens"] for index in range(200)]
    assert lengths == [target.lengths(index)["max_new_tokens"] for index in range(200)]
    assert set(lengths) == set(range(6, 11)), "the token that ends speech counts"
    assert Target(host="here", port=1).lengths(0) == {}
