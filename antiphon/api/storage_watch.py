"""Looks again and again whether what the server keeps can be read, for `/ready`."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack

from antiphon.storage.errors import StorageError

logger = logging.getLogger(__name__)

PERIOD_S = 5.0

Check = Callable[[], Awaitable[None]]
"""Raises `StorageError` if something cannot be read."""


class StorageWatch:
    """What cannot be read, by its name; speech without it goes on."""

    def __init__(self, checks: Mapping[str, Check]) -> None:
        """Look by these checks."""
        self._checks = dict(checks)
        self._problems: dict[str, str] = {}

    @property
    def problems(self) -> list[str]:
        """What was wrong when it was last looked at."""
        return [f"{name}: {message}" for name, message in self._problems.items()]

    def add(self, name: str, check: Check) -> None:
        """Look at something else, too."""
        self._checks[name] = check

    async def start(self, stack: AsyncExitStack) -> None:
        """Look now, and then until ``stack`` ends it."""
        await self.look()
        watching = asyncio.create_task(self._look_for_ever(), name="storage watch")
        stack.callback(watching.cancel)

    async def look(self) -> None:
        """Run all checks once."""
        for name, check in self._checks.items():
            try:
                await check()
            except StorageError as error:
                if name not in self._problems:
                    logger.error("%s: %s", name, error.message)
                self._problems[name] = error.message
            else:
                if self._problems.pop(name, None) is not None:
                    logger.info("%s: can be read again", name)

    async def _look_for_ever(self) -> None:
        while True:
            await asyncio.sleep(PERIOD_S)
            await self.look()
