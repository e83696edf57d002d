"""Draws a report as an SVG: bars of what was made, lines of how soon it was heard."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

_WIDTH, _HEIGHT, _MARGIN = 640, 300, 56
_COLORS = ("#2563eb", "#d97706", "#dc2626")
_STYLE = "font-family:system-ui,sans-serif;font-size:12px"


@dataclass(frozen=True, slots=True)
class Panel:
    """One diagram.

    Attributes:
        title: with the unit.
        labels: below the axis, one for each place on it.
        series: values by name, as many as labels; a single one is drawn as bars, more as lines.
    """

    title: str
    labels: Sequence[str]
    series: Mapping[str, Sequence[float]]


def panels_of(report: Mapping[str, Any]) -> list[Panel]:
    """Return what is drawn of the report of a server's measurement."""
    results = report["results"]
    labels = [
        f"{each['concurrency']} streams" if each["concurrency"] else f"{each['rate_hz']:g} / s"
        for each in results
    ]
    made = {"audio": [each["audio_s_per_s"] for each in results]}
    first = {
        name: [(each["first_audio_ms"] or {}).get(name, 0.0) for each in results]
        for name in ("p50", "p95", "p99")
    }
    return [Panel("audio, s / s", labels, made), Panel("first audio, ms", labels, first)]


def svg(panels: Sequence[Panel], caption: str) -> str:
    """Return a whole SVG file."""
    height = _HEIGHT * len(panels) + 24
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}"'
        f' viewBox="0 0 {_WIDTH} {height}" style="{_STYLE}">',
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
    ]
    for row, panel in enumerate(panels):
        parts += [f'<g transform="translate(0 {row * _HEIGHT})">', *_panel(panel), "</g>"]
    parts.append(_text(_MARGIN, height - 8, caption, "start"))
    return "\n".join([*parts, "</svg>", ""])


def _panel(panel: Panel) -> list[str]:
    num_places = len(panel.labels)
    top = max((value for values in panel.series.values() for value in values), default=0) or 1.0
    step = (_WIDTH - 2 * _MARGIN) / max(1, num_places)
    floor = _HEIGHT - _MARGIN

    def x(place: int) -> float:
        return _MARGIN + (place + 0.5) * step

    def y(value: float) -> float:
        return floor - value / top * (floor - _MARGIN)

    parts = [_text(_MARGIN, 28, panel.title, "start")]
    for share in (0, 0.5, 1):
        level = y(top * share)
        parts.append(f'<path d="M{_MARGIN} {level:.1f}H{_WIDTH - _MARGIN}" stroke="#ddd"/>')
        parts.append(_text(_MARGIN - 6, level + 4, f"{top * share:.4g}", "end"))
    parts += [_text(x(place), floor + 18, each) for place, each in enumerate(panel.labels)]
    for number, (name, values) in enumerate(panel.series.items()):
        color = _COLORS[number % len(_COLORS)]
        if len(panel.series) == 1:
            width = step * 0.5
            parts += [
                f'<rect x="{x(place) - width / 2:.1f}" y="{y(value):.1f}" width="{width:.1f}"'
                f' height="{floor - y(value):.1f}" fill="{color}"/>'
                for place, value in enumerate(values)
            ]
            continue
        points = " ".join(f"{x(place):.1f},{y(value):.1f}" for place, value in enumerate(values))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{color}"/>')
        parts += [
            f'<circle cx="{point.split(",")[0]}" cy="{point.split(",")[1]}" r="3" fill="{color}"/>'
            for point in points.split()
        ]
        name_x = _WIDTH - _MARGIN - 48 * (len(panel.series) - 1 - number)
        parts.append(_text(name_x, 28, name, "end", color))
    return parts


def _text(x: float, y: float, text: str, anchor: str = "middle", color: str = "#222") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{color}"'
    return f"<text {place}>{escape(text)}</text>"
