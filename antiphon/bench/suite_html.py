"""A suite's report as one HTML file, with diagrams inside and nothing to fetch."""

from collections.abc import Mapping, Sequence
from html import escape
from itertools import islice
from typing import Any

from antiphon.bench.charts import Bar, bars, curves, shares
from antiphon.bench.metrics import values_of
from antiphon.bench.record import Record
from antiphon.bench.suite import record_from
from antiphon.bench.suite_markdown import errors_told, table_rows, told

_STYLE = """
:root{color-scheme:light dark}
body{font:15px/1.5 system-ui,sans-serif;max-width:1100px;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;font-size:13px;display:block;overflow-x:auto}
td,th{padding:.3rem .6rem;border-bottom:1px solid #8884;text-align:right;white-space:nowrap}
td:first-child,th:first-child{text-align:left}
svg{display:block;margin:1.5rem 0}
ul{font-size:13px;padding-left:1.2rem}
"""
_BARS = (
    ("Time to first audio, p50, ms", "first_audio_ms", "p50"),
    ("Time to first audible sound, p50, ms", "first_sound_ms", "p50"),
    ("Real-time factor, p50", "real_time_factor", "p50"),
    ("Audio made, seconds a second", "audio_s_per_s", "mean"),
)
_MOST_LINES = 8


def suite_html(report: Mapping[str, Any]) -> str:
    """Return the whole page."""
    head, *rows = table_rows(report)
    table = "".join(
        ["<tr>", *(f"<th>{escape(each)}</th>" for each in head), "</tr>"]
        + [f"<tr>{''.join(f'<td>{escape(each)}</td>' for each in row)}</tr>" for row in rows]
    )
    facts = "".join(f"<li>{escape(line.strip('`'))}</li>" for line in told(report))
    errors = "".join(f"<li>{escape(line)}</li>" for line in errors_told(report))
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Speech benchmark</title>'
        f"<style>{_STYLE}</style><h1>Speech benchmark</h1><ul>{facts}</ul>"
        f"<table>{table}</table>"
        f"{f'<h2>Errors</h2><ul>{errors}</ul>' if errors else ''}{''.join(_diagrams(report))}"
        "<p>Lines on bars are 95 % intervals by the bootstrap. Latencies count from when a request"
        " was due.</p></html>\n"
    )


def _diagrams(report: Mapping[str, Any]) -> list[str]:
    cells = report["cells"]
    drawn = []
    for title, name, statistic in _BARS:
        values = [
            Bar(cell["cell"], figure[statistic], _between(figure, statistic))
            for cell in cells
            if (figure := cell["figures"].get(name) or cell["throughput"].get(name))
        ]
        if values:
            drawn.append(bars(title, values))
    few = {cell["cell"]: _rounds(cell) for cell in islice(cells, _MOST_LINES)}
    waits = {
        name: [value for values in values_of("first_sound_ms", rounds) for value in values]
        for name, rounds in few.items()
    }
    drawn.append(shares("Share of requests that are heard after so many ms", waits))
    buffers = {
        name: buffer_over_time(stream)
        for name, rounds in few.items()
        if (stream := _median_stream(rounds)) is not None
    }
    drawn.append(curves("What a listener has in store, s, over the seconds of a stream", buffers))
    return drawn


def buffer_over_time(record: Record) -> list[tuple[float, float]]:
    """Return how much audio a listener has who plays at once, as points ``(s, s of audio)``."""
    points: list[tuple[float, float]] = []
    in_store_s, last_s = 0.0, record.arrivals_s[0]
    for at_s, duration_s in zip(record.arrivals_s, record.durations_s, strict=True):
        in_store_s = max(0.0, in_store_s - (at_s - last_s))
        points.append((at_s - record.due_s, in_store_s))
        in_store_s += duration_s
        points.append((at_s - record.due_s, in_store_s))
        last_s = at_s
    return points


def _median_stream(rounds: Sequence[Sequence[Record]]) -> Record | None:
    """Return the stream of median latency."""
    whole = [each for records in rounds for each in records if each.arrivals_s]
    ordered = sorted(whole, key=lambda each: each.ended_s - each.due_s)
    return ordered[len(ordered) // 2] if ordered else None


def _rounds(cell: Mapping[str, Any]) -> list[list[Record]]:
    return [[record_from(each) for each in records] for records in cell["records"]]


def _between(figure: Mapping[str, Any], statistic: str) -> tuple[float, float] | None:
    between = figure.get(f"{statistic}_ci95")
    return None if between is None else (between[0], between[1])
