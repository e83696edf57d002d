"""Recorded loads to be replayed: arrival time and text of each request."""

import json
import math
from dataclasses import dataclass
from pathlib import Path

from antiphon.errors import SettingsError


@dataclass(frozen=True, slots=True)
class Trace:
    """A recorded load.

    Attributes:
        times_s: times of the requests since the first, in order.
        texts: one text per request; empty: texts of the suite.
    """

    times_s: tuple[float, ...]
    texts: tuple[str, ...] = ()


def read_trace(file: Path) -> Trace:
    """Read a trace: a line of JSON for each request, ``{"at_s": 1.5, "input": "..."}``.

    Raises:
        SettingsError: The file is not a trace, or only some requests have a text.
    """
    try:
        lines = [line for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
        entries = [json.loads(line) for line in lines]
        times_s = [float(entry["at_s"]) for entry in entries]
        texts = [str(entry["input"]) for entry in entries if "input" in entry]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SettingsError(
            f'{file}: lines as {{"at_s": 1.5, "input": "..."}} are wanted: {error}'
        ) from error
    in_order = times_s == sorted(times_s) and all(map(math.isfinite, times_s))
    if not entries or not in_order or len(texts) not in (0, len(entries)):
        raise SettingsError(f"{file}: requests in order, with a text each or none, are wanted.")
    return Trace(tuple(each - times_s[0] for each in times_s), tuple(texts))
