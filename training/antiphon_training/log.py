"""Logs of a training: a line of JSON for each report, to a file and to standard output."""

import json
import sys
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
