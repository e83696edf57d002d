"""Coroutines in functions that are not."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def on_a_loop(work: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """Return a function that runs a coroutine on an event loop of its own."""

    @wraps(work)
    def run(*positional: P.args, **named: P.kwargs) -> T:
        return asyncio.run(work(*positional, **named))

    return run
