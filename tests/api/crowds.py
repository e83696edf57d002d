"""Servers that are full."""

from collections.abc import Generator
from contextlib import AsyncExitStack, aclosing, contextmanager
from itertools import count
from typing import Any

from antiphon.contracts.types import SpeechRequest
from antiphon.errors import OverloadedError
from tests.servers import RunningServer


@contextmanager
def filled(server: RunningServer, model: Any) -> Generator[None, None, None]:
    stack = AsyncExitStack()

    async def fill() -> None:
        for _ in count():
            place = await stack.enter_async_context(aclosing(model.reserve(SpeechRequest(""))))
            try:
                await anext(place)
            except OverloadedError:
                return

    server.run(fill())
    try:
        yield
    finally:
        server.run(stack.aclose())
