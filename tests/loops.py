"""Event loops of tests."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

DEADLINE_S = 60.0
"""For what must happen at all; how soon is nowhere asserted."""


def on_a_loop(work: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """Return a function that runs a coroutine on an event loop of its own."""

    @wraps(work)
    def run(*positional: P.args, **named: P.kwargs) -> T:
        return asyncio.run(work(*positional, **named))

    return run


async def until(condition: Callable[..., object]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not condition():
            await asyncio.sleep(0.001)
