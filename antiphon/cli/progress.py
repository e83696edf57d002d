"""Progress display: bars on a terminal, a few lines of text elsewhere."""

import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from antiphon.contracts.types import LoadProgress

_SECONDS_BETWEEN_LINES = 10.0
_FEWEST_BYTES = 10_000


@contextmanager
def shown_progress(
    verb: str, write_line: Callable[[str], None]
) -> Generator[LoadProgress, None, None]:
    """Show progress inside the block, as bars on stderr if that is a terminal.

    Args:
        verb: verb of the progress line: ``"loading"``.
        write_line: function that writes lines where there is no terminal.

    Yields:
        What is to be called with the name of a part, what of it is done and all of it, in
        bytes or steps; a part begins with its first call. Any thread may call it.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _Lines(verb, write_line)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[done]}"))
    with Progress(*columns, console=console, transient=True) as bars:
        yield _Bars(verb, bars)


class _Bars:
    """One bar a part; before the first there is one that only moves."""

    def __init__(self, verb: str, bars: Progress) -> None:
        self._verb = verb
        self._bars = bars
        self._waiting: TaskID | None = bars.add_task(verb, total=None, done="")
        self._tasks: dict[str, TaskID] = {}
        self._lock = threading.Lock()

    def __call__(self, part: str, num_done: int, num_all: int) -> None:
        with self._lock:
            if self._waiting is not None:
                self._bars.remove_task(self._waiting)
                self._waiting = None
            if part not in self._tasks:
                name = f"{self._verb} {part}"
                self._tasks[part] = self._bars.add_task(name, total=num_all, done="")
            done = _amount(num_done, num_all)
            self._bars.update(self._tasks[part], completed=num_done, done=done)


class _Lines:
    """A line when a part begins and ends, and every few seconds between."""

    def __init__(self, verb: str, write_line: Callable[[str], None]) -> None:
        self._verb = verb
        self._write_line = write_line
        self._last_line_s: dict[str, float] = {}
        self._lock = threading.Lock()

    def __call__(self, part: str, num_done: int, num_all: int) -> None:
        with self._lock:
            now_s = time.monotonic()
            silent_s = now_s - self._last_line_s.get(part, float("-inf"))
            if num_done < num_all and silent_s < _SECONDS_BETWEEN_LINES:
                return
            self._last_line_s[part] = now_s
        self._write_line(f"{self._verb} {part}: {_amount(num_done, num_all)}")


def _amount(num_done: int, num_all: int) -> str:
    """Format a number of bytes; numbers smaller than any file are steps."""
    if num_all < _FEWEST_BYTES:
        return f"{num_done} of {num_all}"
    return f"{num_done / 1e6:.1f} of {num_all / 1e6:.1f} MB"
