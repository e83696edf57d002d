"""Recent results: made once, also by many at once, forgotten in order, never a failure."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from antiphon.concurrency import SingleFlightLRU


def test_the_least_recently_used_is_forgotten() -> None:
    recent: SingleFlightLRU[str, str] = SingleFlightLRU(2)
    made: list[str] = []

    def get(key: str) -> str:
        def make() -> str:
            made.append(key)
            return key.upper()

        return recent.get(key, make)

    assert [get(key) for key in "abaccab"] == list("ABACCAB")
    assert made == ["a", "b", "c", "b"]
    assert "b" in recent
    assert "c" not in recent


def test_what_many_ask_for_at_once_is_made_once() -> None:
    recent: SingleFlightLRU[int, int] = SingleFlightLRU(4)
    num_made = 0
    begun, may_end = threading.Event(), threading.Event()

    def make() -> int:
        nonlocal num_made
        num_made += 1
        begun.set()
        may_end.wait(10)
        return 7

    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(recent.get, 1, make) for _ in range(4)]
        begun.wait(10)
        assert recent.get(2, lambda: 8) == 8  # others need not wait
        may_end.set()
        assert [each.result(10) for each in asked] == [7] * 4
    assert num_made == 1


def test_failures_are_told_and_not_kept() -> None:
    recent: SingleFlightLRU[int, int] = SingleFlightLRU(4)

    def fail() -> int:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        recent.get(1, fail)
    assert recent.get(1, lambda: 3) == 3
