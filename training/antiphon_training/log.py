"""Reports of a run: lines of JSON to a file and to standard output, and a bar on a terminal."""

import json
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class Log:
    """Appends to a file, and flushes each line: a killed run leaves all that it reported."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, **values: Any) -> None:
        line = json.dumps(values) + "\n"
        sys.stdout.write(line)
        sys.stdout.flush()
        with self._path.open("a", encoding="utf-8") as file:
            file.write(line)


@contextmanager
def shown_bar(name: str, is_shown: bool = True) -> Generator[Callable[[float], None], None, None]:
    """Show how much of a run is done inside the block, if stderr is a terminal.

    Args:
        name: what runs.
        is_shown: False in processes beside the first.

    Yields:
        What is to be called with the share that is done, 0 to 1.
    """
    if not (is_shown and sys.stderr.isatty()):
        yield lambda share: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    times = (TimeElapsedColumn(), TextColumn("left:"), TimeRemainingColumn())
    # Lines on the same terminal go above the bar; in a file or a pipe they stay what they are.
    with Progress(
        *(*columns, *times), console=Console(stderr=True), redirect_stdout=sys.stdout.isatty()
    ) as bars:
        task = bars.add_task(name, total=1.0)
        yield lambda share: bars.update(task, completed=share)
