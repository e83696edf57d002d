"""Reports for people: a suite as Markdown and as one HTML page, a server's loads as an SVG."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from itertools import islice
from shlex import join
from textwrap import shorten
from typing import Any

from antiphon_bench.charts import Bar, Diagram, bars, curves, shares, svg_file
from antiphon_bench.load import load_title
from antiphon_bench.machine import machine_of, version_of
from antiphon_bench.metrics import values_of
from antiphon_bench.record import Record
from antiphon_bench.suite import rounds_of

_TITLE = "Speech benchmark"
_NOTE = (
    "Latencies count from when a request was due. In brackets, and as lines on bars: the 95 %"
    " interval by the bootstrap, where there were enough requests."
)
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
_LONGEST_ERROR = 300
_COLUMNS: tuple[tuple[str, str, str, str], ...] = (
    ("first audio p50, ms", "first_audio_ms", "p50", ".1f"),
    ("p95", "first_audio_ms", "p95", ".1f"),
    ("first sound p50, ms", "first_sound_ms", "p50", ".1f"),
    ("gap p99, ms", "chunk_gap_ms", "p99", ".1f"),
    ("latency p50, ms", "latency_ms", "p50", ".0f"),
    ("RTF p50", "real_time_factor", "p50", ".4f"),
    ("continuity", "continuity", "mean", ".1%"),
    ("audio-s / s", "audio_s_per_s", "mean", ".1f"),
    ("requests / s", "requests_per_s", "mean", ".2f"),
    ("frames / s", "frames_per_s", "mean", ".0f"),
)
"""Heading, figure, statistic, and format of a table's columns."""


def suite_markdown(report: Mapping[str, Any]) -> str:
    head, *rows = _table_rows(report)
    lines = [f"# {_TITLE}", "", *(f"- {line}" for line in _facts(report)), ""]
    lines += [_row(head), _row(["---"] * len(head)), *map(_row, rows), "", _NOTE, ""]
    if errors := _errors(report):
        lines += ["## Errors", "", *(f"- {line}" for line in errors), ""]
    return "\n".join(lines)


def suite_html(report: Mapping[str, Any]) -> str:
    """Return the whole page, with diagrams inside and nothing to fetch."""
    head, *rows = _table_rows(report)
    table = _cells("th", head) + "".join(_cells("td", row) for row in rows)
    facts = _list(line.strip("`") for line in _facts(report))
    errors = _errors(report)
    diagrams = "".join(diagram.svg() for diagram in _diagrams(report))
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{_TITLE}</title>'
        f"<style>{_STYLE}</style><h1>{_TITLE}</h1>{facts}<table>{table}</table>"
        f"{f'<h2>Errors</h2>{_list(errors)}' if errors else ''}{diagrams}<p>{_NOTE}</p></html>\n"
    )


def serve_svg(report: Mapping[str, Any]) -> str:
    """Return an SVG file of a server benchmark: throughput and latency."""
    results = report["results"]
    labels = [*map(load_title, results)]
    figures = {"Audio made, s / s": [each["audio_s_per_s"] for each in results]}
    for name in ("p50", "p95", "p99"):
        firsts = [(each["first_audio_ms"] or {}).get(name, 0.0) for each in results]
        figures[f"First audio, {name}, ms"] = firsts
    caption = f"{report['measured_at']}, {', '.join(report['gpus']) or report['machine']}"
    return svg_file(
        [bars(title, [*map(Bar, labels, values)]) for title, values in figures.items()], caption
    )


def _list(lines: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>"


def _cells(tag: str, values: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(each)}</{tag}>' for each in values)}</tr>"


def _facts(report: Mapping[str, Any]) -> list[str]:
    packages = ", ".join(f"{name} {number}" for name, number in report["packages"].items())
    return [
        f"{report['server']}, measured by {version_of(report)}",
        machine_of(report),
        f"Python {report['python']}, {packages}",
        f"`{join(report['command'])}`",
        f"{report['rounds']} rounds, prebuffer {report['prebuffer_s'] * 1000:.0f} ms",
        *(["Interrupted: what is missing was not measured"] if report["interrupted"] else ()),
    ]


def _errors(report: Mapping[str, Any]) -> list[str]:
    return [
        f"{cell['cell']}: {shorten(error, _LONGEST_ERROR, placeholder=' ...')}"
        for cell in report["cells"]
        for error in cell["errors"]
    ]


def _table_rows(report: Mapping[str, Any]) -> list[list[str]]:
    """Return the headings, and a row for each cell; columns without any figure are left out."""
    columns = [
        (heading, name, statistic, form)
        for heading, name, statistic, form in _COLUMNS
        if any(_figure(cell, name) for cell in report["cells"])
    ]
    rows = [["cell", "requests", *(heading for heading, *_ in columns)]]
    for cell in report["cells"]:
        outcomes = cell["outcomes"]
        not_ok = sum(number for name, number in outcomes.items() if name != "ok")
        requests = f"{outcomes.get('ok', 0)}" + (f" (+{not_ok} not ok)" if not_ok else "")
        values = (_value(cell, name, statistic, form) for _, name, statistic, form in columns)
        rows.append([cell["cell"], requests, *values])
    return rows


def _figure(cell: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = cell["figures"].get(name) or cell["throughput"].get(name) or {}
    return found


def _value(cell: Mapping[str, Any], name: str, statistic: str, form: str) -> str:
    figure = _figure(cell, name)
    if statistic not in figure:
        return ""
    value = format(figure[statistic], form)
    between = figure.get(f"{statistic}_ci95")
    if between is None or name == "continuity":
        return value
    low, high = (format(side, form) for side in between)
    return f"{value} [{low}, {high}]" if low != high else value


def _row(values: Sequence[str]) -> str:
    return f"| {' | '.join(values)} |"


def _diagrams(report: Mapping[str, Any]) -> list[Diagram]:
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
    few = {cell["cell"]: rounds_of(cell) for cell in islice(cells, _MOST_LINES)}
    waits = {
        name: [value for values in values_of("first_sound_ms", rounds) for value in values]
        for name, rounds in few.items()
    }
    drawn.append(shares("Share of requests with first audio after so many ms", waits))
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
    whole = [each for records in rounds for each in records if each.arrivals_s]
    ordered = sorted(whole, key=lambda each: each.ended_s - each.due_s)
    return ordered[len(ordered) // 2] if ordered else None


def _between(figure: Mapping[str, Any], statistic: str) -> tuple[float, float] | None:
    between = figure.get(f"{statistic}_ci95")
    return None if between is None else (between[0], between[1])
