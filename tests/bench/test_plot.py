"""The drawing is well-formed, whatever is written into it, and shows every load."""

from xml.etree import ElementTree

from antiphon.bench.plot import Panel, panels_of, svg

SVG = "{http://www.w3.org/2000/svg}"


def test_every_load_is_drawn() -> None:
    first = {"p50": 10.0, "p95": 20.0, "p99": 30.0}
    results = [
        {"concurrency": 1, "rate_hz": 0, "audio_s_per_s": 15.0, "first_audio_ms": first},
        {"concurrency": 64, "rate_hz": 0, "audio_s_per_s": 500.0, "first_audio_ms": first},
        {"concurrency": 0, "rate_hz": 2.5, "audio_s_per_s": 9.0, "first_audio_ms": None},
    ]
    drawn = ElementTree.fromstring(svg(panels_of({"results": results}), "a < b & c"))
    texts = [each.text for each in drawn.iter(f"{SVG}text")]
    assert {"1 streams", "64 streams", "2.5 / s", "a < b & c", "p95"} <= set(texts)
    bars = [each for each in drawn.iter(f"{SVG}rect") if each.get("fill") == "#2563eb"]
    assert len(bars) == 3
    heights = [float(each.attrib["height"]) for each in bars]
    assert heights[1] == max(heights)
    assert len(list(drawn.iter(f"{SVG}circle"))) == 9


def test_nothing_at_all_can_be_drawn() -> None:
    for panel in (Panel("empty", [], {"a": []}), Panel("zero", ["x"], {"a": [0.0]})):
        assert ElementTree.fromstring(svg([panel], "")).tag == f"{SVG}svg"
