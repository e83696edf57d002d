"""A front end that starts while the server stops."""

import asyncio
import signal
from types import SimpleNamespace
from typing import Any, cast

import pytest

from antiphon.cli.front_ends import FrontEndProcess


class Child:
    """A process that runs until it is stopped."""

    def __init__(self) -> None:
        self.is_stopped = False

    async def reported(self) -> None:
        await asyncio.Event().wait()

    async def stop(self, grace_s: float) -> None:
        del grace_s
        self.is_stopped = True


@pytest.mark.anyio
@pytest.mark.parametrize("are_sockets_closed", [False, True])
async def test_a_signal_during_a_start_ends_what_was_started(
    monkeypatch: pytest.MonkeyPatch, are_sockets_closed: bool
) -> None:
    plan = cast("Any", SimpleNamespace(name="front-end-0"))
    process, child = FrontEndProcess(plan, cast("Any", None), {}), Child()

    async def launch() -> Child:
        process.is_stopping = True
        process.send_signal(signal.SIGTERM)  # to no process
        if are_sockets_closed:
            raise OSError("Bad file descriptor")
        return child

    monkeypatch.setattr(process, "_launch", launch)
    async with asyncio.timeout(5):
        await process.keep_alive()
    assert child.is_stopped != are_sockets_closed
