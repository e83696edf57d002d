"""``antiphon bench`` measures every load that it is told, and writes what it shows."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from antiphon.errors import SettingsError
from antiphon_bench.commands.serve import ServeBenchFlags, loads_of
from tests.cli.conftest import Run
from tests.servers import TOY, start_server


def test_every_load_is_measured_and_written(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "bench.json"
    arguments = ["engine", "toy", "--concurrency", "1,2", "--frames", "20"]
    result = run(*arguments, "--json", str(file))
    assert result.exit_code == 0, result.output
    report = json.loads(file.read_text(encoding="utf-8"))
    assert [each["concurrency"] for each in report["results"]] == [1, 2]
    assert all(each["audio_s_per_s"] > 0 for each in report["results"])
    assert "audio-s / s" in result.output


def test_a_model_that_writes_is_measured_and_written(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "chat.json"
    few = ["--concurrency", "1,2", "--tokens", "20", "--max-slots", "3", "--json", str(file)]
    result = run("chat", "--model", "toy", *few)
    assert result.exit_code == 0, result.output
    report = json.loads(file.read_text(encoding="utf-8"))
    assert [each["num_tokens"] for each in report["results"]] == [20, 40]
    assert (report["kind"], report["model"]["max_slots"]) == ("chat", 3)
    for column in ("ms a step", "tokens / s", "first p50 ms", "first p95 ms"):
        assert column in result.output


def test_answers_that_a_server_speaks_are_measured_and_written(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "chat.json"
    few = ["--tokens", "30", "--concurrency", "1,2", "--ramp-s", "0.01", "--json", str(file)]
    with start_server(TOY) as server:
        chat = ["chat", "--url", server.base_url, "--model", "toy"]
        result = run(*chat, *few, "--voice", "alto", "--field", "temperature=0")
        refused = run(*chat, "--concurrency", "1", "--voice", "nobody")
    assert result.exit_code == 0, result.output
    report = json.loads(file.read_text(encoding="utf-8"))
    assert [each["outcomes"] for each in report["results"]] == [{"ok": 2}, {"ok": 4}]
    assert report["fields"]["audio"] == {"voice": "alto", "format": "pcm16"}
    assert report["fields"]["temperature"] == 0
    for each in report["results"]:
        assert each["audio_s_per_s"] > 0
        assert each["audio_after_text_ms"]["p95"] <= each["first_audio_ms"]["p95"]
    assert "gapless" in result.output
    assert "1 rejected" in refused.output
    assert "There is no voice 'nobody'" in refused.stderr


def test_flags_of_a_server_are_refused_without_one(run: Run) -> None:
    result = run("chat", "--model", "toy", "--letters", "--ramp-s", "1")
    assert result.exit_code != 0
    assert "--ramp-s, --letters" in result.stderr


def test_fabrics_are_measured_and_written(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "fabric.json"
    few = ["--concurrency", "1,2", "--chunks", "3", "--rounds", "2", "--interval-ms", "5"]
    result = run("fabric", "--fabrics", "local", *few, "--json", str(file))
    assert result.exit_code == 0, result.output
    report = json.loads(file.read_text(encoding="utf-8"))
    assert [each["num_streams"] for each in report["results"]] == [1, 2]
    assert "chunk p99 ms" in result.output


def test_a_running_server_is_measured_drawn_and_written(run: Run, tmp_path: Path) -> None:
    file, plot, texts = tmp_path / "r.json", tmp_path / "r.svg", tmp_path / "texts"
    texts.write_text("One text.\n\nAnother text.\n", encoding="utf-8")
    loads = ["--concurrency", "1,2", "--rate", "50", "--requests", "3", "--text-file", str(texts)]
    files = ["--json", str(file), "--plot", str(plot)]
    with start_server(TOY) as server:
        more = ["--field", "seed=7", "--sse", "--processes", "1", "--warmup", "1"]
        result = run("serve", "--url", server.base_url, *loads, *files, *more)
    assert result.exit_code == 0, result.output
    report = json.loads(file.read_text(encoding="utf-8"))
    assert [each["outcomes"] for each in report["results"]] == [{"ok": 3}] * 3
    assert all(each["num_tokens"] > 0 for each in report["results"])
    assert report["fields"] == {"response_format": "pcm", "stream_format": "sse", "seed": 7}
    assert ElementTree.parse(plot).getroot().tag.endswith("svg")


def test_a_server_of_our_own_is_started_and_stopped(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "r.json"
    loads = ["--concurrency", "2", "--requests", "4", "--processes", "1", "--json", str(file)]
    result = run("serve", "--model", "toy", "--api-key", "secret", *loads)
    assert result.exit_code == 0, result.output
    report = json.loads(file.read_text(encoding="utf-8"))
    assert report["results"][0]["outcomes"] == {"ok": 4}
    assert report["model"] == "toy"


@pytest.mark.parametrize(
    "arguments",
    [
        ["serve"],
        ["serve", "--url", "http://127.0.0.1:1", "--model", "toy"],
        ["serve", "--model", "toy", "--random", "tiny"],
        ["serve", "--url", "http://127.0.0.1:1", "--concurrency", "many"],
        ["serve", "--url", "http://127.0.0.1:1", "--concurrency", "1.5"],
        ["serve", "--url", "http://127.0.0.1:1", "--rate", "0"],
        ["serve", "--url", "http://127.0.0.1:1", "--field", "seed"],
        ["serve", "--url", "http://127.0.0.1:1", "--response-format", "mp3"],
        ["serve", "--url", "http://127.0.0.1:1", "--text-file", "no such file"],
        ["engine"],
        ["engine", "toy", "--random", "tiny"],
        ["engine", "--random", "no such size"],
        ["engine", "--random", "tiny", "--family", "kokoro"],
        ["engine", "toy", "--family", "voxcpm2"],
        ["serve", "--url", "http://127.0.0.1:1", "--family", "voxcpm2"],
        ["chat", "--url", "http://127.0.0.1:1", "--device", "cuda"],
        ["chat"],
        ["chat", "--model", "toy", "--random", "tiny"],
        ["chat", "--model", "hibari"],
        ["chat", "--model", "toy", "--concurrency", "0"],
        ["chat", "--model", "toy", "--tokens", "100000"],
        ["chat", "--random", "tiny", "--family", "voxcpm2"],
        ["chat", "--url", "http://127.0.0.1:1", "--random", "tiny"],
        ["chat", "--url", "ftp://127.0.0.1:1"],
        ["engine", "--random", "tiny", "--family", "causal_lm"],
    ],
)
def test_what_is_wrong_is_told_in_one_line(run: Run, arguments: list[str]) -> None:
    result = run(*arguments)
    assert result.exit_code == 1
    assert result.stderr.startswith("antiphon: ")
    assert result.stderr.count("\n") == 1


def test_loads_follow_from_the_flags() -> None:
    closed = loads_of(ServeBenchFlags(concurrency="1,4"))
    assert [(each.concurrency, each.num_requests) for each in closed] == [(1, 8), (4, 32)]
    (open_load,) = loads_of(ServeBenchFlags(rate="2.5", duration_s=3))
    assert (open_load.is_open, open_load.rate_hz, open_load.num_requests) == (True, 2.5, None)
    assert [each.concurrency for each in loads_of(ServeBenchFlags())] == [1, 8, 32]
    with pytest.raises(SettingsError):
        loads_of(ServeBenchFlags(concurrency=""))


def test_a_suite_is_measured_and_compared(run: Run, tmp_path: Path) -> None:
    files = []
    with start_server(TOY) as server:
        few = ["--lengths", "short", "--concurrency", "1", "--requests", "6", "--rounds", "1"]
        for name in ("before", "after"):
            out = tmp_path / name
            more = ["--processes", "1", "--out", str(out)]
            result = run("suite", "--url", server.base_url, *few, *more)
            assert result.exit_code == 0, result.output
            assert "custom_voice/en/short/stream/1 streams" in result.output
            assert "<svg" in (out / "report.html").read_text(encoding="utf-8")
            files.append(out / "report.json")
    report = json.loads(files[1].read_text(encoding="utf-8"))
    for record in report["cells"][0]["records"][0]:
        for member in ("ended_s", "first_sound_s"):
            record[member] += 5.0
        record["arrivals_s"] = [at_s + 5.0 for at_s in record["arrivals_s"]]
    files[1].write_text(json.dumps(report), encoding="utf-8")
    same = run("compare", str(files[0]), str(files[0]), "--all")
    assert same.exit_code == 0, same.output
    assert "0 worse, 0 better" in same.output
    worse = run("compare", str(files[0]), str(files[1]))
    assert worse.exit_code == 1
    assert "first_audio_ms p50" in worse.output
    report["cells"][0]["records"][0][:] = report["cells"][0]["records"][0][:1]
    files[1].write_text(json.dumps(report), encoding="utf-8")
    unsure = run("compare", str(files[1]), str(files[1]))
    assert unsure.exit_code == 2
    assert "no figure of enough requests" in unsure.stderr
    for wrong in ({}, {"kind": "engine"}, {**report, "cells": []}):
        files[1].write_text(json.dumps(wrong), encoding="utf-8")
        refused = run("compare", str(files[0]), str(files[1]))
        assert (refused.exit_code, refused.stderr.count("\n")) == (2, 1)
        assert refused.stderr.startswith("antiphon: ")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--tasks", "sing"],
        ["--lengths", "endless"],
        ["--adapter", "none"],
        ["--bursts", "8"],
        ["--random", "tiny", "--tasks", "base,voice_design"],
        ["--ref-audio", "no such file", "--ref-text", "so", "--tasks", "base"],
        ["--trace", "no such file"],
        ["--adapter-file", "no such file"],
        ["--concurrency", "2,2"],
    ],
)
def test_a_suite_that_makes_no_sense_is_refused(run: Run, arguments: list[str]) -> None:
    result = run("suite", "--url", "http://127.0.0.1:1", *arguments)
    assert result.exit_code == 1
    assert result.output.startswith("antiphon: ")
