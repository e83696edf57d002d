"""Limits that several processes share are exact in sum, whatever becomes of one of them."""

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.api.middleware.connection_limits import ConnectionLimits
from antiphon.api.middleware.failed_keys import FailedKeys
from antiphon.api.middleware.limit_table import LimitTable, LocalLimitTable, TokenBucket
from antiphon.api.middleware.memory_budget import REFUSALS, MemoryBudget
from antiphon.api.middleware.rate_limit import RateLimits
from antiphon.api.middleware.shared_limit_table import SharedLimitTable, make_shared_memory
from antiphon.config import LimitSettings
from antiphon.errors import RateLimitError, UnavailableError

DEADLINE_S = 60

NAMES = [f"name {n}" for n in range(12)]
STEPS = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from(NAMES), st.integers(-5, 5)), max_size=60
)


@pytest.fixture
def memory() -> Generator[int, None, None]:
    descriptor = make_shared_memory(3)
    yield descriptor
    os.close(descriptor)


@given(STEPS)
def test_a_count_is_the_sum_of_all_columns(steps: list[tuple[int, str, int]]) -> None:
    descriptor = make_shared_memory(3, num_rows=64)
    try:
        tables = [SharedLimitTable(descriptor, column, 3) for column in range(3)]
        expected, alone = LocalLimitTable(), [LocalLimitTable() for _ in tables]
        for column, name, number in steps:
            tables[column].add(name, number)
            alone[column].add(name, number)
            expected.add(name, number)
        for table in tables:
            assert [table.count(name) for name in NAMES] == [expected.count(n) for n in NAMES]
        tables[0].clear_column(2)
        left = [expected.count(name) - alone[2].count(name) for name in NAMES]
        assert [tables[1].count(name) for name in NAMES] == left
    finally:
        os.close(descriptor)


def test_a_bucket_is_one_for_all(memory: int) -> None:
    first, second = (SharedLimitTable(memory, column, 3) for column in range(2))
    assert first.bucket("a") is None
    first.keep("a", TokenBucket(2.5, 7.0))
    assert second.bucket("a") == TokenBucket(2.5, 7.0)
    assert second.bucket("b") is None


def test_unused_names_make_room_and_used_ones_do_not() -> None:
    descriptor = make_shared_memory(2, num_rows=8)
    table, other = (SharedLimitTable(descriptor, column, 2) for column in range(2))
    other.add("held", 1)
    table.keep("oldest", TokenBucket(1.0, 1.0))
    for number in range(100):
        table.keep(f"bucket {number}", TokenBucket(1.0, 1.0))
    assert table.count("held") == 1
    assert table.bucket("oldest") is None
    assert table.bucket("bucket 99") is not None
    for number in range(7):
        table.add(f"count {number}", 1)
    with pytest.raises(UnavailableError):
        table.add("one too many", 1)
    assert table.count("held") == 1
    os.close(descriptor)


@pytest.mark.parametrize("kind", ["local", "shared"])
def test_limits_are_the_same_in_either_table(kind: str, memory: int) -> None:
    tables: list[LimitTable]
    if kind == "local":
        tables = [LocalLimitTable()] * 2
    else:
        tables = [SharedLimitTable(memory, column, 3) for column in range(2)]
    limits = LimitSettings(
        max_requests=3, caller_places=2, key_concurrency=1, key_requests_per_minute=2
    )
    with ExitStack() as stack:
        one, two = (ConnectionLimits(limits, table) for table in tables)
        stack.enter_context(one.passed("http", "a"))
        stack.enter_context(two.passed("http", "a"))
        with pytest.raises(RateLimitError), two.passed("http", "a"):
            pass
        stack.enter_context(two.passed("http", "b"))
        with pytest.raises(UnavailableError), one.passed("http", "c"):
            pass
    with two.passed("http", "a"), one.passed("http", "a"):
        pass
    first, second = (RateLimits(limits, table, clock=lambda: 1.0) for table in tables)
    with first.used("a"), pytest.raises(RateLimitError, match="at once"), second.used("a"):
        pass
    with second.used("a") as headers:
        assert headers["x-ratelimit-remaining-requests"] == "0"
    with pytest.raises(RateLimitError, match="per minute"), first.used("a"):
        pass
    failed = [FailedKeys(1, table, clock=lambda: 1.0) for table in tables]
    failed[0].check("192.0.2.1", "known")
    failed[1].check("192.0.2.1", None)
    with pytest.raises(RateLimitError):
        failed[0].check("192.0.2.1", "unknown")
    failed[1].check("192.0.2.1", "known")
    budgets = [MemoryBudget(LimitSettings(max_memory_mib=1), table) for table in tables]
    with budgets[0].lease("a") as held, budgets[1].lease("b") as refused:
        held.reserve(2**20 - 1)
        refused.reserve(1)
        with pytest.raises(REFUSALS):
            refused.reserve(1)
        held.release(1)
        refused.reserve(1)
    assert [budget.num_bytes for budget in budgets] == [0, 0]


COUNTING = """
import sys
from contextlib import suppress
from antiphon.api.middleware.connection_limits import ConnectionLimits
from antiphon.api.middleware.shared_limit_table import SharedLimitTable
from antiphon.config import LimitSettings
from antiphon.errors import UnavailableError

table = SharedLimitTable(int(sys.argv[1]), int(sys.argv[2]), 3)
limits = ConnectionLimits(LimitSettings(max_requests=2), table)
num_rounds = int(sys.argv[3])
print("begun", flush=True)
while num_rounds:
    num_rounds -= 1
    with suppress(UnavailableError), limits.passed("http", f"caller {num_rounds % 7}"):
        assert table.count("http") <= 2
"""


def counting(memory: int, column: int, num_rounds: int) -> "subprocess.Popen[str]":
    arguments = [sys.executable, "-c", COUNTING, str(memory), str(column), str(num_rounds)]
    process = subprocess.Popen(
        arguments, pass_fds=[memory], stdout=subprocess.PIPE, text=True, cwd=Path.cwd()
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    return process


def test_processes_never_let_in_more_than_all_may_and_one_that_is_killed_holds_nothing(
    memory: int,
) -> None:
    own = SharedLimitTable(memory, 0, 3)
    with counting(memory, 1, 3000) as counted, counting(memory, 2, -1) as endless:
        assert counted.wait(DEADLINE_S) == 0
        endless.send_signal(signal.SIGKILL)
        endless.wait(DEADLINE_S)
    own.clear_column(2)
    assert own.count("http") == 0
    limits = ConnectionLimits(LimitSettings(max_requests=2), own)
    with (
        limits.passed("http", "a"),
        limits.passed("http", "b"),
        pytest.raises(UnavailableError),
        limits.passed("http", "c"),
    ):
        pass
