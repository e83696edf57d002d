"""Worker threads: results, errors, context, and a cancellation that waits for the call."""

import asyncio
import threading

import pytest

from antiphon.concurrency import Workers
from antiphon.telemetry import request_id, request_scope


def test_results_errors_and_context_cross_the_thread() -> None:
    async def main() -> None:
        workers = Workers("test", 1)
        assert await workers.run(divmod, 7, 2) == (3, 1)
        with pytest.raises(ZeroDivisionError):
            await workers.run(divmod, 1, 0)
        with request_scope("req_1"):
            assert await workers.run(request_id.get) == "req_1"
        workers.close()

    asyncio.run(main())


def test_cancelling_waits_for_the_call_under_way() -> None:
    async def main() -> None:
        workers = Workers("test", 1)
        entered, leave = threading.Event(), threading.Event()
        has_left = False

        def work() -> None:
            nonlocal has_left
            entered.set()
            leave.wait(10)
            has_left = True

        task = asyncio.create_task(workers.run(work))
        await asyncio.to_thread(entered.wait, 10)
        task.cancel()
        await asyncio.sleep(0.02)
        assert not task.done()
        task.cancel()
        leave.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert has_left
        workers.close()

    asyncio.run(main())


def test_a_cancelled_call_that_has_not_begun_never_begins() -> None:
    async def main() -> None:
        workers = Workers("test", 1)
        leave = threading.Event()
        calls: list[int] = []
        first = asyncio.create_task(workers.run(leave.wait, 10))
        second = asyncio.create_task(workers.run(calls.append, 1))
        await asyncio.sleep(0.02)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        leave.set()
        await first
        assert not calls
        workers.close()

    asyncio.run(main())
