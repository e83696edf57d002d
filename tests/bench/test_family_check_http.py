"""Listeners over HTTP are judged by what they would have heard."""

import asyncio

import pytest

from antiphon.bench.family_check import FamilyCheckPlan, Finding
from antiphon.bench.family_check_http import check_over_http, heard
from antiphon.bench.record import Outcome, Record
from antiphon.config import ModelSettings
from tests.servers import start_server


def record(arrivals_s: tuple[float, ...], outcome: Outcome = "ok") -> Record:
    return Record(
        index=0,
        due_s=0.0,
        sent_s=0.0,
        ended_s=9.0,
        outcome=outcome,
        status=200,
        num_characters=5,
        arrivals_s=arrivals_s,
        durations_s=(1.0,) * len(arrivals_s),
        message="" if outcome == "ok" else "too much",
    )


@pytest.mark.parametrize(
    ("arrivals_s", "is_met"),
    [((0.5, 1.4, 2.4), True), ((0.5, 1.6), False), ((0.5, 0.6, 2.51), False)],
)
def test_a_halt_is_a_gap(arrivals_s: tuple[float, ...], is_met: bool) -> None:
    answered, gaps = heard("stream", [record((0.1, 0.2)), record(arrivals_s)])
    assert answered.is_met
    assert (gaps.is_met, gaps.is_speed) == (is_met, True)
    assert "within 500 ms" in gaps.detail


def test_an_answer_that_failed_is_no_matter_of_speed() -> None:
    for bad in (record((), "failed"), record((0.1,), "broken")):
        [finding] = heard("stream", [record((0.1,)), bad])
        assert not finding.is_met
        assert not finding.is_speed
        assert finding.detail == "1 of 2 failed: too much"


def test_a_server_is_asked_alone_and_by_many() -> None:
    plan = FamilyCheckPlan(model=ModelSettings(source="toy"), num_concurrent=3, max_frames=30)
    found: list[Finding] = []
    with start_server() as server:
        asyncio.run(check_over_http(plan, server.base_url, found.append))
    assert [each.check for each in found] == [
        *("HTTP stream", "HTTP stream: gaps"),
        *("3 HTTP streams at once", "3 HTTP streams at once: gaps"),
    ]
    assert all(each.is_met for each in found if not each.is_speed)
    assert "s of audio" in found[0].detail
