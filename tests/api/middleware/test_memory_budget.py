"""A budget of memory: what requests hold is counted, and is free again however they end."""

import asyncio
from contextlib import ExitStack
from typing import cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import Message, Receive, Scope, Send

from antiphon.api.encoding import FileEncoding
from antiphon.api.middleware import memory_budget
from antiphon.api.middleware.body import BodyMiddleware
from antiphon.api.middleware.keys import KeyRing
from antiphon.api.middleware.limit_table import LocalLimitTable
from antiphon.api.middleware.memory_budget import REFUSALS, MemoryBudget
from antiphon.api.options import FamilyOptions
from antiphon.concurrency import Workers
from antiphon.config import LimitSettings
from antiphon.contracts.types import AudioChunk, Ended, Samples, SpeechStream, Usage
from antiphon.errors import (
    MemoryFullError,
    MemoryShareError,
    RequestTooLargeError,
    UnavailableError,
)
from antiphon.formats import AudioFormat
from antiphon.voices.recordings import Recordings

MIB = 1024 * 1024


# The budget itself


class _Silence:
    """Stands for recordings of one second each."""

    async def load(self, recording: str | bytes, sample_rate_hz: int) -> Samples:
        return np.zeros(sample_rate_hz, np.float32)


def test_decoded_recordings_and_their_copies_count() -> None:
    budget = MemoryBudget(LimitSettings(), LocalLimitTable())
    options = FamilyOptions({}, {"ref_audio": b"", "other": b""})
    with budget.lease("a caller") as lease:
        with memory_budget.use_lease(lease):
            recordings = cast(Recordings, _Silence())
            asyncio.run(options.decoded(recordings, sample_rate_hz=24_000))
        assert budget.num_bytes == 2 * 2 * 4 * 24_000
    assert budget.num_bytes == 0


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(-3 * MIB, 3 * MIB))))
def test_never_more_is_held_than_is_allowed(turns: list[tuple[int, int]]) -> None:
    told: list[int] = []
    table = LocalLimitTable()
    limits = LimitSettings(max_memory_mib=8, caller_memory_mib=4)
    budget = MemoryBudget(limits, table, told.append)
    with ExitStack() as stack:
        leases = [stack.enter_context(budget.lease(f"caller {n % 3}")) for n in range(6)]
        for index, num_bytes in turns:
            lease, before = leases[index], budget.num_bytes
            if num_bytes < 0:
                lease.release(min(-num_bytes, lease.num_bytes))
            else:
                try:
                    lease.reserve(num_bytes)
                except REFUSALS:
                    assert budget.num_bytes == before, "what is refused is not held"
                else:
                    assert budget.num_bytes == before + num_bytes
            held = [each.num_bytes for each in leases]
            assert sum(held) == budget.num_bytes <= 8 * MIB
            assert all(held[n] + held[n + 3] <= 4 * MIB for n in range(3))
            assert told[-1:] in ([], [budget.num_bytes])
    assert budget.num_bytes == 0
    assert not len(table), "callers without requests are not remembered"


def test_each_refusal_says_what_would_help() -> None:
    budget = MemoryBudget(LimitSettings(max_memory_mib=3, caller_memory_mib=2), LocalLimitTable())
    with budget.lease("a") as first, budget.lease("a") as second, budget.lease("b") as other:
        with pytest.raises(RequestTooLargeError, match=r"limits\.caller_memory_mib"):
            first.reserve(2 * MIB + 1)
        first.reserve(2 * MIB)
        with pytest.raises(MemoryShareError) as refused:
            second.reserve(1)
        assert refused.value.retry_after_s
        other.reserve(MIB)
        with pytest.raises(MemoryFullError) as full:
            other.reserve(1)
        assert full.value.retry_after_s
        first.close()
        first.reserve(MIB)  # what outlives its request counts no more
        assert budget.num_bytes == MIB
        second.reserve(2 * MIB)


def test_zero_is_no_limit() -> None:
    budget = MemoryBudget(LimitSettings(max_memory_mib=0, caller_memory_mib=0), LocalLimitTable())
    with budget.lease("a") as lease:
        lease.reserve(1000 * 1024 * MIB)
        assert budget.num_bytes == 1000 * 1024 * MIB


def test_where_nobody_asks_nothing_is_counted() -> None:
    memory_budget.reserve(MIB)
    memory_budget.release(MIB)


# A request, however it ends


class _Client:
    """Sends a body of pieces, then listens, or leaves."""

    def __init__(self, *pieces: bytes, leaves: bool = False) -> None:
        self._pieces = list(pieces)
        self._leaves = leaves

    async def receive(self) -> Message:
        if not self._pieces:
            if not self._leaves:
                await asyncio.Event().wait()
            return {"type": "http.disconnect"}
        body = self._pieces.pop(0)
        more = bool(self._pieces) or self._leaves
        return {"type": "http.request", "body": body, "more_body": more}

    async def send(self, message: Message) -> None:
        """Nobody looks at answers here."""


async def _read(receive: Receive) -> None:
    while (message := await receive())["type"] == "http.request" and message["more_body"]:
        pass
    if message["type"] == "http.disconnect":
        raise ConnectionError("the client has left")


@pytest.mark.parametrize("ending", ["completed", "refused", "left early", "left late", "failed"])
async def test_all_is_free_again_however_a_request_ends(ending: str) -> None:
    held: list[int] = []
    table = LocalLimitTable()
    limits = LimitSettings(max_memory_mib=1, caller_memory_mib=0)
    budget = MemoryBudget(limits, table, held.append)
    collecting = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await _read(receive)
        await asyncio.create_task(collect())

    async def collect() -> None:
        memory_budget.reserve(1000)  # also in a task of its own
        collecting.set()
        if ending == "failed":
            raise RuntimeError("a bug")
        if ending == "left late":
            await asyncio.Event().wait()

    size = MIB if ending == "refused" else 1000
    client = _Client(bytes(size), bytes(size), leaves=ending == "left early")
    scope = {"type": "http", "headers": [], "client": ("192.0.2.1", 1)}
    middleware = BodyMiddleware(app, budget, KeyRing([]), max_bytes=2 * MIB, timeout_s=60)
    answering = asyncio.create_task(middleware(scope, client.receive, client.send))
    if ending == "left late":
        await collecting.wait()
        answering.cancel()
    (outcome,) = await asyncio.gather(answering, return_exceptions=True)
    wanted = {
        "completed": type(None),
        "refused": RequestTooLargeError,
        "left early": ConnectionError,
        "left late": asyncio.CancelledError,
        "failed": RuntimeError,
    }
    assert type(outcome) is wanted[ending]
    most = {"refused": MIB, "left early": 2000}.get(ending, 5000)
    assert max(held) == most, "a body counts twice once it is complete"
    assert held[-1] == budget.num_bytes == 0
    assert not len(table)


@pytest.mark.parametrize("reason", ["a bug", "stopped"])
def test_a_file_that_fails_holds_nothing_while_its_request_goes_on(reason: str) -> None:
    async def events() -> SpeechStream:
        for _ in range(10):
            yield AudioChunk(np.zeros(1000, np.float32), 24_000)
        assert lease.num_bytes == 20_000
        if reason == "a bug":
            raise RuntimeError(reason)
        yield Ended("abort", Usage())

    async def collect() -> None:
        workers = Workers("encoder")
        try:
            with memory_budget.use_lease(lease):
                encoding = FileEncoding(AudioFormat.PCM, 24_000, workers, is_whole=True)
                await encoding.collected(events())
        finally:
            workers.close()

    with MemoryBudget(LimitSettings(), LocalLimitTable()).lease("a") as lease:
        with pytest.raises((RuntimeError, UnavailableError)):
            asyncio.run(collect())
        assert lease.num_bytes == 0
