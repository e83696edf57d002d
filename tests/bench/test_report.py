"""The drawing is well-formed, whatever is written into it, and shows every load."""

from typing import Any
from xml.etree import ElementTree

from antiphon_bench.charts import bars, curves, svg_file
from antiphon_bench.report import serve_svg

SVG = "{http://www.w3.org/2000/svg}"
MEASURED = {"measured_at": "today", "gpus": ["a < b & c"], "machine": "x86_64"}


def test_every_load_is_drawn() -> None:
    first = {"p50": 10.0, "p95": 20.0, "p99": 30.0}
    results: list[dict[str, Any]] = [
        {"concurrency": 1, "rate_hz": 0, "audio_s_per_s": 15.0, "first_audio_ms": first},
        {"concurrency": 64, "rate_hz": 0, "audio_s_per_s": 500.0, "first_audio_ms": first},
        {"concurrency": 0, "rate_hz": 2.5, "audio_s_per_s": 9.0, "first_audio_ms": None},
    ]
    drawn = ElementTree.fromstring(serve_svg({**MEASURED, "results": results}))
    texts = [each.text for each in drawn.iter(f"{SVG}text")]
    assert {"1 streams", "64 streams", "2.5 / s", "today, a < b & c"} <= set(texts)
    diagrams = drawn.findall(f"{SVG}svg")
    titles = [each[0].text for each in diagrams]
    assert titles == ["Audio made, s / s", *(f"First audio, p{n}, ms" for n in (50, 95, 99))]
    widths = [float(bar.attrib["width"]) for bar in diagrams[0].iter(f"{SVG}rect")]
    assert len(widths) == 3
    assert widths[1] == max(widths)
    places = [float(each.attrib["y"]) for each in diagrams]
    ends = [y + float(each.attrib["height"]) for y, each in zip(places, diagrams, strict=True)]
    assert all(end <= begin for end, begin in zip(ends, places[1:], strict=False))


def test_nothing_at_all_can_be_drawn() -> None:
    for diagram in (bars("empty", []), curves("empty", {}), curves("zero", {"a": [(0.0, 0.0)]})):
        drawn = ElementTree.fromstring(svg_file([diagram], ""))
        assert drawn.tag == f"{SVG}svg"
        assert ElementTree.fromstring(diagram.svg()).tag == f"{SVG}svg"
