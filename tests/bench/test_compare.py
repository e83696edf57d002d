"""A change is told, noise is not, and what was measured too little is called unknown."""

import json
import math
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from antiphon.errors import SettingsError
from antiphon_bench.adapters import adapter
from antiphon_bench.compare import compare
from antiphon_bench.load import HttpLoad
from antiphon_bench.record import Record
from antiphon_bench.report_file import differences, read_report
from antiphon_bench.suite import Cell, SuitePlan, raw, record_from, result_of

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


def first(found: dict[str, Any]) -> dict[str, Any]:
    """Return a report's first request."""
    request: dict[str, Any] = found["cells"][0]["records"][0][0]
    return request


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


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda found: found.update(kind="serve"), "but of `antiphon bench serve`"),
        (lambda found: found.update(kind=["suite"]), "is no report"),
        (lambda found: found.update(schema=99), "schema 99"),
        (lambda found: found.pop("cells"), "cells: Field required"),
        (lambda found: found.update(cells={}), "cells: "),
        (lambda found: first(found).pop("arrivals_s"), "records.0.0.arrivals_s"),
        (lambda found: first(found).update(ended_s=math.nan), "records.0.0.ended_s"),
        (lambda found: first(found).update(durations_s=[math.inf, 1]), "durations_s.0"),
        (lambda found: first(found).update(durations_s=[1]), "not as many"),
        (lambda found: first(found).update(outcome="splendid"), "outcome"),
        (lambda found: found.update(prebuffer_s="long"), "prebuffer_s"),
    ],
)
def test_a_report_with_something_wrong_is_refused_with_its_place(
    tmp_path: Path, change: Callable[[dict[str, Any]], object], told: str
) -> None:
    file, found = tmp_path / "report.json", report(1, num=2)
    change(found)
    file.write_text(json.dumps(found), encoding="utf-8")
    with pytest.raises(SettingsError) as refused:
        read_report(file)
    assert told in str(refused.value)


def test_requests_that_fail_where_none_did_are_a_regression_however_few() -> None:
    failing = report(3)
    first(failing)["outcome"] = "broken"
    assert verdicts(report(1), failing)["errors"] == "worse"
    assert "errors" not in verdicts(failing, report(1))
    assert "errors" not in verdicts(failing, failing)
    first(failing)["outcome"] = "refused"
    assert "errors" not in verdicts(report(1), failing)
    only = report(1, num=1)
    for records in only["cells"][0]["records"]:
        records[0].update(outcome="timeout", arrivals_s=[], durations_s=[], first_sound_s=None)
    assert verdicts(report(1, num=1), only)["errors"] == "worse"
    assert set(verdicts(only, only).values()) == {"same"}


def test_figures_that_were_zero_are_compared_by_their_difference() -> None:
    together = report(1)
    for records in together["cells"][0]["records"]:
        for each in records:
            each["arrivals_s"] = [each["arrivals_s"][0]] * 2
    found = verdicts(together, report(2))
    assert found["chunk_gap_ms p99"] == "worse"
    assert verdicts(report(2), together)["chunk_gap_ms p99"] == "better"
    assert verdicts(together, together)["chunk_gap_ms p99"] == "same"


def test_a_listener_who_collects_audio_is_asked_as_in_the_report() -> None:
    halting = report(2, halt_s=0.2)
    assert verdicts(report(1), halting)["continuity mean"] == "worse"
    patient = {**halting, "prebuffer_s": 1.0}
    assert verdicts({**report(1), "prebuffer_s": 1.0}, patient)["continuity mean"] == "same"


def test_what_two_reports_do_not_share_is_told() -> None:
    before = {**report(1, num=2), "cpu": "A", "voice": "x", "rounds": 3, "gpus": []}
    after = {**report(1, num=3), "cpu": "B", "voice": "y", "rounds": 3}
    after["cells"].append({**after["cells"][0], "cell": "another"})
    told = list(differences(before, after))
    assert told == [
        "Other hardware: cpu: A and B",
        "Other settings: voice: x and y",
        "Only in the second: another",
        f"{CELL.name}: 6 and 9 requests",
    ]
    for records in after["cells"][0]["records"]:
        for each in records:
            each["outcome"] = "failed"
    assert f"{CELL.name}: no request of the second was answered whole" in differences(before, after)
    assert list(differences(before, before)) == []


def test_reports_need_a_cell_in_common() -> None:
    other = report(1, num=2)
    other["cells"][0]["cell"] = "another"
    with pytest.raises(SettingsError):
        compare(report(1, num=2), other)
