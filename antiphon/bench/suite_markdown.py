"""A suite's report as Markdown: what was measured on what, and a row for each cell."""

from collections.abc import Mapping, Sequence
from shlex import join
from textwrap import shorten
from typing import Any

_LONGEST_ERROR = 300
COLUMNS: tuple[tuple[str, str, str, str], ...] = (
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
    """Return the whole file."""
    rows = table_rows(report)
    lines = ["# Speech benchmark", "", *(f"- {line}" for line in told(report)), ""]
    lines += [_row(rows[0]), _row(["---"] * len(rows[0])), *map(_row, rows[1:]), ""]
    lines += [
        "Latencies count from when a request was due. In brackets: the 95 % interval of the figure "
        "to the left, by the bootstrap, where there were enough requests.",
        "",
    ]
    if errors := errors_told(report):
        lines += ["## Errors", "", *(f"- {line}" for line in errors), ""]
    return "\n".join(lines)


def told(report: Mapping[str, Any]) -> list[str]:
    """Return what was measured, and on what, a line each."""
    packages = ", ".join(f"{name} {number}" for name, number in report["packages"].items())
    machine = ", ".join(
        [report["cpu"] or report["machine"], f"{report['cores']} cores", *report["gpus"]]
    )
    commit = f", commit {report['commit']}" if report["commit"] else ""
    return [
        f"{report['server']}, measured by Antiphon {report['antiphon']}{commit}",
        f"{report['measured_at']}; {machine}",
        f"Python {report['python']}, {packages}",
        f"`{join(report['command'])}`",
        f"{report['rounds']} rounds, prebuffer {report['prebuffer_s'] * 1000:.0f} ms",
        *(["Interrupted: what is missing was not measured"] if report["interrupted"] else ()),
    ]


def errors_told(report: Mapping[str, Any]) -> list[str]:
    """Return why requests failed, a line each: a server may say pages."""
    return [
        f"{cell['cell']}: {shorten(error, _LONGEST_ERROR, placeholder=' ...')}"
        for cell in report["cells"]
        for error in cell["errors"]
    ]


def table_rows(report: Mapping[str, Any]) -> list[list[str]]:
    """Return the headings, and a row for each cell; columns without any figure are left out."""
    columns = [
        (heading, name, statistic, form)
        for heading, name, statistic, form in COLUMNS
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
