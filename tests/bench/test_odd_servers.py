"""Servers that answer oddly are told apart, count as what they are, and keep no run from ending."""

import asyncio
import time
from dataclasses import replace

import pytest

from antiphon_bench.driver import LoadShare, drive
from antiphon_bench.exchange import retry_after_s
from antiphon_bench.load import HttpLoad
from antiphon_bench.record import Outcome, Record
from antiphon_bench.serve import HttpPlan, measure, target_of
from antiphon_bench.summary import summarize
from tests.bench.odd_server import ANSWERS, DURATION_S, OddServer, odd_server

GOOD = {
    "good": "pcm",
    "closes_kept_connections": "pcm",
    "odd_pieces": "pcm",
    "until_the_connection_ends": "pcm",
    "slow_head": "pcm",
    "headers_of_latin_1": "pcm",
    "events": "pcm",
    "wav": "wav",
    "wav_of_48_khz": "wav",
    "wav_with_words_behind": "wav",
}
BAD: dict[str, tuple[str, Outcome, str]] = {
    "empty": ("pcm", "invalid", "no audio"),
    "breaks_off": ("pcm", "broken", "ended before the answer"),
    "breaks_off_in_chunks": ("pcm", "broken", "ended before the answer"),
    "breaks_off_in_the_head": ("pcm", "broken", "without any answer"),
    "says_nothing": ("pcm", "broken", "without any answer"),
    "half_a_sample": ("pcm", "broken", "within a sample"),
    "html": ("pcm", "invalid", "text/html came in the place of pcm: <h1>Welcome"),
    "mp3": ("pcm", "invalid", "audio/mpeg came"),
    "mp3_without_a_name": ("pcm", "invalid", "MP3 came"),
    "json_error": ("pcm", "invalid", "Out of memory"),
    "error_event": ("pcm", "failed", "fallen off the bus"),
    "no_last_event": ("pcm", "broken", "ended before the last one"),
    "events_that_never_end": ("pcm", "timeout", "0.4 s"),
    "events_of_no_json": ("pcm", "invalid", "no JSON"),
    "events_of_no_base64": ("pcm", "invalid", "no base64"),
    "gzipped": ("pcm", "invalid", "gzip"),
    "redirect": ("pcm", "invalid", "redirects to /elsewhere"),
    "no_content": ("pcm", "invalid", "HTTP 204"),
    "busy": ("pcm", "refused", "later"),
    "busy_until_a_date": ("pcm", "refused", "later"),
    "hangs": ("pcm", "timeout", "0.4 s"),
    "hangs_at_once": ("pcm", "timeout", "0.4 s"),
    "latin_1_error": ("pcm", "failed", "berlauf"),
    "no_rate": ("pcm", "invalid", "'0' is no sample rate"),
    "no_http": ("pcm", "invalid", "no HTTP"),
    "wav_that_is_cut": ("wav", "broken", "announces 48000 bytes of audio; 4800 came"),
    "wav_that_goes_on": ("wav", "invalid", "announces 480 bytes of audio; more came"),
    "wav_of_8_bits": ("wav", "invalid", "8 bits"),
    "wav_of_a_head": ("wav", "broken", "within the header"),
}


def records(server: OddServer, name: str, response_format: str, num: int = 2) -> list[Record]:
    """Ask one after the other, in this process."""
    fields = {"response_format": response_format}
    target = target_of(f"{server.base_url}/{name}", api_key=None, fields=fields)
    is_endless = name in BAD and BAD[name][1] == "timeout"
    target = replace(target, timeout_s=0.4 if is_endless else 60.0)
    load = HttpLoad(concurrency=1, num_requests=num)
    share = LoadShare(load=load, target=target, texts=("So.",), starts_s=time.monotonic())
    return asyncio.run(drive(share))


def test_every_oddity_is_tried() -> None:
    assert GOOD.keys() | BAD.keys() == ANSWERS.keys()


@pytest.mark.parametrize("name", GOOD)
def test_what_is_right_in_an_unusual_way_counts(name: str) -> None:
    with odd_server() as server:
        found = records(server, name, GOOD[name])
    assert [(each.outcome, each.message) for each in found] == [("ok", "")] * 2
    for each in found:
        assert each.audio_s == pytest.approx(DURATION_S)
        assert each.first_sound_s is not None


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_counts_as_what_it_is(name: str) -> None:
    response_format, outcome, message = BAD[name]
    with odd_server() as server:
        found = records(server, name, response_format, num=1)
    assert [each.outcome for each in found] == [outcome]
    assert message in found[0].message
    result = summarize(HttpLoad(concurrency=1, num_requests=1), found)
    assert (result.audio_s, result.audio_s_per_s, result.requests_per_s) == (0, 0, 0)
    assert result.first_audio_ms is None
    assert result.real_time_factor is None


def test_a_kept_connection_that_was_closed_is_no_failure() -> None:
    with odd_server() as server:
        found = records(server, "closes_kept_connections", "pcm", num=3)
        assert [each.outcome for each in found] == ["ok"] * 3
        assert (server.num_connections, len(server.requests)) == (3, 5)


def test_a_connection_is_kept_after_a_refusal_and_the_wait_is_what_was_asked_for() -> None:
    with odd_server() as server:
        found = records(server, "busy", "pcm", num=2)
        assert [each.retry_after_s for each in found] == [0.01] * 2
        assert server.num_connections == 1
    assert retry_after_s({"retry-after-ms": "1500", "retry-after": "2"}) == 1.5
    for nonsense in ("soon", "nan", "inf", "-1", ""):
        assert retry_after_s({"retry-after": nonsense}) is None


def test_a_run_of_failures_ends_with_a_report() -> None:
    with odd_server() as server:
        target = target_of(
            f"{server.base_url}/html", api_key=None, fields={"response_format": "pcm"}
        )
        loads = [HttpLoad(concurrency=2, num_requests=2), HttpLoad(rate_hz=100, num_requests=2)]
        report = measure(HttpPlan(target=target, loads=loads, num_processes=1), lambda _: None)
    for result in report["results"]:
        assert result["outcomes"] == {"invalid": 2}
        assert result["audio_s_per_s"] == 0
        assert "text/html" in result["errors"][0]
