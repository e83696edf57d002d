"""Servers are asked as their adapters say; a suite measures every cell and reports all of it."""

import asyncio
import json
import time
from collections import defaultdict
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from antiphon.errors import SettingsError
from antiphon_bench.adapters import MODES, TASKS, adapter, shipped_adapters
from antiphon_bench.corpus import LANGUAGES, LENGTH_BOUNDS, LENGTHS, texts_of
from antiphon_bench.driver import LoadShare, drive
from antiphon_bench.load import HttpLoad, arrivals_s
from antiphon_bench.record import Record
from antiphon_bench.report import buffer_over_time, suite_html, suite_markdown
from antiphon_bench.suite import Cell, SuitePlan, run_suite, target_for
from antiphon_bench.text_socket import pieces_of
from antiphon_bench.trace import Trace, read_trace
from tests.bench.odd_server import odd_server
from tests.servers import TOY, start_server, wait_until

ONE = HttpLoad(concurrency=1, num_requests=2)
VALUES = {"instructions": "Calm.", "ref_audio": "data:,", "ref_text": "So."}


def cell(load: HttpLoad = ONE, **more: Any) -> Cell:
    given = {"task": "custom_voice", "language": "en", "length": "short", "mode": "stream"}
    return Cell(**{**given, **more}, load=load)


def plan(url: str, cells: list[Cell], **more: Any) -> SuitePlan:
    return SuitePlan(url=url, adapter=adapter("antiphon"), cells=cells, values=VALUES, **more)


def test_texts_have_the_lengths_and_letters_they_are_listed_under() -> None:
    for language in LANGUAGES:
        for length in LENGTHS:
            texts = texts_of(language, length)
            fewest, most = LENGTH_BOUNDS[length]
            assert len(set(texts)) == len(texts) > 1
            assert all(fewest <= len(text) <= most for text in texts), (language, length)
            for text in texts:
                has_chinese = any("\u4e00" <= each <= "\u9fff" for each in text)
                has_latin = any("a" <= each.lower() <= "z" for each in text)
                assert (has_latin, has_chinese) == {
                    "en": (True, False),
                    "zh": (False, True),
                    "mixed": (True, True),
                }[language], text
    with pytest.raises(SettingsError):
        texts_of("en", "endless")


def test_adapters_say_what_each_server_reads() -> None:
    assert {"antiphon", "vllm-omni", "sglang-omni", "kokoro-fastapi"} <= shipped_adapters().keys()
    for found in shipped_adapters().values():
        members = found.members("custom_voice", "stream", None, VALUES)
        assert members["response_format"] in ("pcm", "wav")
        assert found.members("custom_voice", "whole", "x", VALUES)["voice"] == "x"
    omni = adapter("vllm-omni")
    cloned = omni.members("base", "stream", "x", VALUES)
    assert cloned["stream_format"] == "audio", "stream alone would be events there"
    assert (cloned["ref_audio"], cloned["task_type"]) == ("data:,", "Base")
    assert "voice" not in cloned
    one_language = adapter("kokoro-fastapi")
    assert one_language.members("custom_voice", "stream", None, {})["voice"] == "af_heart"
    for task, mode in (("base", "stream"), ("custom_voice", "text_stream")):
        with pytest.raises(SettingsError):
            one_language.members(task, mode, None, VALUES)
    with pytest.raises(SettingsError, match="--ref-audio"):
        omni.members("base", "stream", None, {})


def test_adapters_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "servers.yaml"
    told = "mine: {title: Mine, path: /tts, stream: {format: raw}, whole: {}, tasks: {base: {}}}"
    file.write_text(told, encoding="utf-8")
    mine = replace(plan("http://127.0.0.1/v1", []), adapter=adapter("mine", file))
    target = target_for(mine, cell(task="base"))
    assert (target.path, target.fields) == ("/tts", {"format": "raw"})
    with pytest.raises(SettingsError):
        adapter("other", file)
    with pytest.raises(SettingsError, match="cannot be read"):
        adapter("mine", tmp_path / "none")
    file.write_text("mine: {title: Mine}", encoding="utf-8")
    with pytest.raises(SettingsError, match="stream"):
        adapter("mine", file)


def test_bursts_and_traces_come_when_they_are_due() -> None:
    bursts = HttpLoad(rate_hz=4, burst_size=2, num_requests=6)
    assert arrivals_s(bursts) == [0, 0, 0.5, 0.5, 1, 1]
    trace = HttpLoad(times_s=(0.0, 0.25, 3.0), num_requests=3)
    assert arrivals_s(trace) == [0, 0.25, 3]
    for load in (bursts, trace):
        assert load.is_open
        parts = [time_s for part in load.split(2) for time_s in arrivals_s(part)]
        assert sorted(parts) == arrivals_s(load)


def test_traces_are_read(tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    file.write_text('{"at_s": 5, "input": "a"}\n\n{"at_s": 6.5, "input": "b"}\n', encoding="utf-8")
    assert read_trace(file) == Trace((0, 1.5), ("a", "b"))
    for wrong in (
        "",
        "{}",
        '{"at_s": 2}\n{"at_s": 1}',
        '{"at_s": 1}\n{"at_s": 1, "input": "a"}',
        '{"at_s": NaN}',
    ):
        file.write_text(wrong, encoding="utf-8")
        with pytest.raises(SettingsError):
            read_trace(file)


def test_text_is_cut_as_it_is_written() -> None:
    assert pieces_of("Two words.") == ["Two", " words."]
    assert pieces_of("请打开 Wi-Fi。") == ["请", "打", "开", " Wi-Fi", "。"]


def test_text_that_streams_in_is_timed() -> None:
    text = "One two three."
    with start_server(TOY) as server:
        records = {}
        for mode in ("stream", "text_stream"):
            target = target_for(plan(server.base_url, [], pieces_per_s=100), cell(mode=mode))
            part = LoadShare(load=ONE, target=target, texts=(text,), starts_s=time.monotonic())
            records[mode], _ = asyncio.run(drive(part))
        wait_until(lambda: server.num_open == 0)
        keyed = replace(target, path="/v1/nowhere")
        broken = LoadShare(load=ONE, target=keyed, texts=(text,), starts_s=time.monotonic())
        refused, _ = asyncio.run(drive(broken))
    assert records["text_stream"].outcome == "ok"
    assert records["text_stream"].audio_s == pytest.approx(records["stream"].audio_s, rel=0.2)
    assert records["text_stream"].first_byte_s == records["text_stream"].arrivals_s[0]
    assert refused.outcome == "rejected"


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [str(value) for name, value in attrs if name in ("src", "href")]


def test_a_suite_measures_every_cell_and_reports_it() -> None:
    counted = defaultdict[str, list[tuple[int, ...]]](list)
    trace = Trace((0.0, 0.01), ("Its own text.", "Another."))
    with start_server(TOY) as server:
        cells = [
            *(cell(mode=mode) for mode in MODES),
            cell(HttpLoad(times_s=trace.times_s, num_requests=2), language="trace", length="own"),
        ]
        wanted = plan(server.base_url, cells, rounds=2, trace=trace, num_processes=1)
        report = run_suite(wanted, lambda part, *counts: counted[part].append(counts))
    told, told_requests = counted["cells"], counted["requests"]
    report = json.loads(json.dumps(report))
    assert told == [(number, 8) for number in range(9)]
    assert told_requests == sorted(told_requests)
    assert {(number, 16) for number in range(2, 17, 2)} <= set(told_requests)
    assert [each["cell"] for each in report["cells"]] == [each.name for each in cells]
    for each in report["cells"]:
        assert each["outcomes"] == {"ok": 4}
        assert each["figures"]["first_sound_ms"]["p50"] > 0
        assert each["throughput"]["audio_s_per_s"]["mean"] > 0
        assert each["vllm_omni"]["completed"] == 4
        assert [len(records) for records in each["records"]] == [2, 2]
    replayed = report["cells"][-1]["records"][0]
    assert [each["num_characters"] for each in replayed] == [13, 8]
    markdown = suite_markdown(report)
    assert all(each.name in markdown for each in cells)
    page = _Page()
    page.feed(suite_html(report))
    assert page.tags.count("svg") == 6
    assert page.addresses == [], "nothing is fetched"


def test_a_suite_that_cannot_be_asked_measures_nothing() -> None:
    wanted = replace(plan("http://127.0.0.1:1", [cell(task="base")]), values={})
    with pytest.raises(SettingsError):
        run_suite(wanted, lambda *_: None)
    with pytest.raises(SettingsError):
        run_suite(plan("http://127.0.0.1:1", []), lambda *_: None)


def test_a_report_says_why_requests_failed_and_has_no_figures_of_them() -> None:
    with odd_server() as server:
        url = f"{server.base_url}/html"
        report = run_suite(plan(url, [cell()], num_processes=1), lambda *_: None)
    (found,) = report["cells"]
    assert (found["outcomes"], found["figures"], found["throughput"]) == ({"invalid": 2}, {}, {})
    assert found["vllm_omni"]["failed"] == 2
    assert "text/html came in the place of pcm: <h1>" in suite_markdown(report)
    html = suite_html(report)
    assert "text/html came in the place of pcm: &lt;h1&gt;" in html
    assert "<h1>Welcome" not in html


def test_a_listeners_store_is_what_came_less_what_was_played() -> None:
    record = Record(
        index=0,
        due_s=1.0,
        sent_s=1.0,
        ended_s=3.0,
        outcome="ok",
        status=200,
        num_characters=1,
        arrivals_s=(1.5, 2.0, 4.0),
        durations_s=(1.0, 0.5, 1.0),
    )
    assert buffer_over_time(record) == [(0.5, 0), (0.5, 1), (1, 0.5), (1, 1), (3, 0), (3, 1)]


def test_every_task_is_known_to_our_own_adapter() -> None:
    assert set(adapter("antiphon").tasks) == set(TASKS)
