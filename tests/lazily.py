"""Modules that are imported on first use, since all processes of a run collect all tests."""

from typing import Any

import pytest


class Lazily:
    """A module that takes seconds to import; whoever uses it is skipped where it is not there."""

    def __init__(self, name: str, reason: str) -> None:
        self._name, self._reason = name, reason

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # what pytest asks of each name of a module that it collects
            raise AttributeError(name)
        return getattr(pytest.importorskip(self._name, reason=self._reason), name)
