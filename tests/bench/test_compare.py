"""A change is told, noise is not, and what was measured too little is called unknown."""

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from antiphon.bench.adapters import adapter
from antiphon.bench.compare import compare, read_report
from antiphon.bench.load import HttpLoad
from antiphon.bench.record import Record
from antiphon.bench.suite import Cell, SuitePlan, raw, record_from, result_of
from antiphon.errors import SettingsError

CELL = Cell(
    task="custom_voice",
    language="en",
    length="short",
    mode="stream",
    load=HttpLoad(concurrency=1, num_requests=20),
)
PLAN = SuitePlan(url="http://127.0.0.1", adapter=adapter("antiphon"), cells=(CELL,))


def answered(index: int, first_s: float, halt_s: float = 0.0) -> Record:
    due_s = 2.0 * index
    return Record(
        index=index,
        due_s=due_s,
        sent_s=due_s,
        ended_s=due_s + 1.0 + halt_s,
        outcome="ok",
        status=200,
        num_characters=9,
        first_byte_s=due_s + first_s,
        arrivals_s=(due_s + first_s, due_s + first_s + 0.5 + halt_s),
        durations_s=(0.5, 0.5),
        first_sound_s=due_s + first_s + 0.03,
    )


def report(seed: int, *, slower: float = 1.0, halt_s: float = 0.0, num: int = 60) -> dict[str, Any]:
    """Return a report of three rounds whose first audio comes after some 100 ms."""
    draw = random.Random(seed)
    rounds = [
        [answered(index, slower * draw.uniform(0.08, 0.12), halt_s) for index in range(num)]
        for _ in range(3)
    ]
    return {"kind": "suite", "cells": [result_of(CELL, rounds, PLAN)]}


def verdicts(before: dict[str, Any], after: dict[str, Any]) -> dict[str, str]:
    return {each.figure: each.verdict for each in compare(before, after)}


def test_noise_is_no_change() -> None:
    for seed in range(3):
        assert set(verdicts(report(seed), report(seed + 10)).values()) == {"same"}


def test_a_regression_is_told_and_its_reverse_is_an_improvement() -> None:
    slower, base = report(1, slower=1.3), report(2)
    found = verdicts(base, slower)
    assert {name for name, verdict in found.items() if verdict == "worse"} == {
        *("first_audio_ms p50", "first_audio_ms p95", "first_sound_ms p50", "first_sound_ms p95")
    }
    assert "better" not in found.values()
    assert "worse" not in verdicts(slower, base).values()
    assert verdicts(slower, base)["first_audio_ms p50"] == "better"


def test_halts_and_failures_are_regressions() -> None:
    found = verdicts(report(1), report(2, halt_s=0.2))
    assert found["continuity mean"] == found["underrun_s mean"] == "worse"
    failing = report(3)
    records = failing["cells"][0]["records"]
    for each in records:
        for record in each[:20]:
            record["outcome"] = "failed"
    assert verdicts(report(1), failing)["success mean"] == "worse"


def test_too_few_requests_are_unknown() -> None:
    found = verdicts(report(1, num=1), report(2, slower=3, num=1))
    assert found["first_audio_ms p95"] == "unknown"


def test_reports_are_read_as_they_were_written(tmp_path: Path) -> None:
    record = replace(answered(3, 0.1), first_sound_s=None)
    again = record_from(json.loads(json.dumps(raw(record, [record]))))
    assert again.arrivals_s == pytest.approx((0.1, 0.6))
    assert again.first_sound_s is None
    file = tmp_path / "report.json"
    file.write_text(json.dumps(report(1, num=2)), encoding="utf-8")
    assert read_report(file)["kind"] == "suite"
    for text in ("{}", "no json"):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(SettingsError):
            read_report(file)


def test_reports_need_a_cell_in_common() -> None:
    other = report(1, num=2)
    other["cells"][0]["cell"] = "another"
    with pytest.raises(SettingsError):
        compare(report(1, num=2), other)
