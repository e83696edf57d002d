"""SVG diagrams: bars with intervals, cumulative shares and curves; in a page, or as a file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

_WIDTH, _ROW, _LABEL = 860, 22, 330
_HEIGHT, _LEFT, _RIGHT, _FOOT = 260, 56, 200, 34
_MARGIN = 16
_XMLNS = 'xmlns="http://www.w3.org/2000/svg"'
_STYLE = "font:12px system-ui,sans-serif"
COLORS = ("#2563eb", "#d97706", "#059669", "#dc2626", "#7c3aed", "#0891b2", "#be185d", "#65a30d")


@dataclass(frozen=True, slots=True)
class Diagram:
    """One diagram.

    Attributes:
        height: height in pixels; all diagrams have the same width.
    """

    height: float
    parts: str

    def svg(self, place: str = f'style="{_STYLE};max-width:{_WIDTH}px;width:100%"') -> str:
        """Return an ``svg`` element for a page, or with ``place`` for another ``svg``."""
        head = f'<svg {_XMLNS} viewBox="0 0 {_WIDTH} {self.height}" role="img" {place}>'
        return f"{head}{self.parts}</svg>"


def svg_file(diagrams: Sequence[Diagram], caption: str) -> str:
    """Return an SVG file of diagrams, one below the other, and a caption."""
    parts, y = [], float(_MARGIN)
    for diagram in diagrams:
        parts.append(
            diagram.svg(f'x="{_MARGIN}" y="{y}" width="{_WIDTH}" height="{diagram.height}"')
        )
        y += diagram.height + _MARGIN
    width, height = _WIDTH + 2 * _MARGIN, y + _MARGIN
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    head = f'<svg {_XMLNS} {size} style="{_STYLE};color:#222">'
    white = f'<rect width="{width}" height="{height}" fill="white"/>'
    return "\n".join([head, white, *parts, _text(_MARGIN, y, caption), "</svg>", ""])


@dataclass(frozen=True, slots=True)
class Bar:
    """One value.

    Attributes:
        between: confidence interval of the value, if it has one.
    """

    label: str
    value: float
    between: tuple[float, float] | None = None


def bars(title: str, values: Sequence[Bar]) -> Diagram:
    """Return a diagram of bars, one below the other, each with its interval as a line."""
    top = max([each.between[1] if each.between else each.value for each in values] or [0]) or 1.0
    height = _ROW * len(values) + 34
    scale = (_WIDTH - _LABEL - 90) / top
    parts = [_text(0, 16, title, bold=True)]
    for row, each in enumerate(values):
        y = 28 + row * _ROW
        parts.append(_text(_LABEL - 8, y + 13, each.label, "end"))
        width = each.value * scale
        parts.append(
            f'<rect x="{_LABEL}" y="{y + 3}" width="{width:.1f}" height="13" fill="{COLORS[0]}"/>'
        )
        end = width
        if each.between is not None:
            low, high = (_LABEL + side * scale for side in each.between)
            middle = y + 9.5
            parts.append(f'<path d="M{low:.1f} {middle}H{high:.1f}" stroke="currentColor"/>')
            end = max(end, high - _LABEL)
        parts.append(_text(_LABEL + end + 6, y + 13, f"{each.value:.4g}"))
    return Diagram(height, "".join(parts))


def shares(title: str, series: Mapping[str, Sequence[float]]) -> Diagram:
    """Return which share of the values is no larger than each: a line for each series."""
    largest = max((max(values) for values in series.values() if values), default=0) or 1.0
    lines = {
        name: [(0.0, 0.0)]
        + [(value, (rank + 1) / len(values)) for rank, value in enumerate(sorted(values))]
        for name, values in series.items()
        if values
    }
    return _lines(title, lines, largest, 1.0, steps=True)


def curves(title: str, series: Mapping[str, Sequence[tuple[float, float]]]) -> Diagram:
    """Return lines through points."""
    points = [point for values in series.values() for point in values]
    right = max((x for x, _ in points), default=0) or 1.0
    top = max((y for _, y in points), default=0) or 1.0
    return _lines(title, series, right, top)


def _lines(
    title: str,
    series: Mapping[str, Sequence[tuple[float, float]]],
    right: float,
    top: float,
    *,
    steps: bool = False,
) -> Diagram:
    floor, width = _HEIGHT - _FOOT, _WIDTH - _LEFT - _RIGHT
    parts = [_text(0, 16, title, bold=True)]
    for share in (0, 0.25, 0.5, 0.75, 1):
        y = floor - share * (floor - 30)
        parts.append(f'<path d="M{_LEFT} {y:.1f}h{width}" stroke="#8886"/>')
        parts.append(_text(_LEFT - 6, y + 4, f"{share * top:.3g}", "end"))
        parts.append(_text(_LEFT + share * width, floor + 18, f"{share * right:.4g}", "middle"))
    for number, (name, points) in enumerate(series.items()):
        color = COLORS[number % len(COLORS)]
        path = ""
        for x_value, y_value in points:
            x = _LEFT + x_value / right * width
            y = floor - y_value / top * (floor - 30)
            if not path:
                path = f"M{x:.1f} {y:.1f}"
            else:
                path += f"H{x:.1f}V{y:.1f}" if steps else f"L{x:.1f} {y:.1f}"
        parts.append(f'<path d="{path}" fill="none" stroke="{color}" stroke-width="1.5"/>')
        place = 34 + number * 15
        parts.append(_text(_LEFT + width + 10, place, name, color=color, size=10))
    return Diagram(_HEIGHT, "".join(parts))


def _text(
    x: float,
    y: float,
    text: str,
    anchor: str = "start",
    *,
    bold: bool = False,
    color: str = "currentColor",
    size: int = 12,
) -> str:
    weight = ' font-weight="600"' if bold else ""
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{color}" font-size="{size}"'
    return f"<text {place}{weight}>{escape(text)}</text>"
