"""The whole measurement over loopback: every request is accounted for, and so is every sample."""

import asyncio
import json
import time
from collections.abc import Mapping
from contextlib import closing
from typing import Any

import pytest

from antiphon.config import ModelSettings, ServerSettings, Settings
from antiphon.errors import SettingsError
from antiphon_bench.connection import SpeechClient
from antiphon_bench.driver import LoadShare, drive
from antiphon_bench.load import HttpLoad
from antiphon_bench.record import Record
from antiphon_bench.serve import HttpPlan, measure, target_of
from antiphon_bench.summary import HttpResult
from tests.servers import TOY, RunningServer, start_server, wait_until

TEXTS = ("One.", "Two words here.", "And a third text, the longest of all three.")
KEYED = Settings(model=ModelSettings(source="toy"), server=ServerSettings(api_keys=("key",)))


def records(server: RunningServer, load: HttpLoad, **fields: Any) -> list[Record]:
    target = target_of(server.base_url, api_key=None, fields={"response_format": "pcm"} | fields)
    part = LoadShare(load=load, target=target, texts=TEXTS, starts_s=time.monotonic())
    return asyncio.run(drive(part))


def test_a_closed_load_sends_every_request_once() -> None:
    with start_server(TOY) as server:
        found = records(server, HttpLoad(concurrency=3, num_requests=10, seed=4))
        wait_until(lambda: server.num_open == 0)
    assert sorted(each.index for each in found) == list(range(10))
    assert {each.outcome for each in found} == {"ok"}
    for each in found:
        assert each.due_s <= each.sent_s <= each.arrivals_s[0] <= each.ended_s
        assert list(each.arrivals_s) == sorted(each.arrivals_s)
        assert each.first_sound_s is not None
        assert each.first_sound_s >= each.arrivals_s[0]
        assert each.num_characters in map(len, TEXTS)
    # The same text is as long however it arrives.
    by_text = {each.num_characters: round(each.audio_s, 6) for each in found}
    assert all(round(each.audio_s, 6) == by_text[each.num_characters] for each in found)


def test_a_stream_of_a_ramp_begins_at_its_time() -> None:
    second_of_two = HttpLoad(concurrency=1, num_requests=1, ramp_s=0.4, first_index=1, stride=2)
    with start_server(TOY) as server:
        begun_s = time.monotonic()
        (found,) = records(server, second_of_two)
    assert found.due_s - begun_s >= 0.2


def test_an_open_load_sends_requests_when_they_are_due() -> None:
    with start_server(TOY) as server:
        found = records(server, HttpLoad(rate_hz=200, num_requests=12), stream_format="sse")
    assert sorted(each.index for each in found) == list(range(12))
    assert {each.outcome for each in found} == {"ok"}
    assert all(each.sent_s >= each.due_s for each in found)
    assert all(each.num_tokens for each in found)


@pytest.mark.parametrize("response_format", ["pcm", "wav"])
def test_audio_is_as_long_in_every_format(response_format: str) -> None:
    with start_server(TOY) as server:
        load = HttpLoad(concurrency=1, num_requests=1)
        (plain,) = records(server, load)
        (other,) = records(server, load, response_format=response_format, stream_format="sse")
    assert other.audio_s == pytest.approx(plain.audio_s)
    assert other.num_tokens


def test_errors_are_told_apart() -> None:
    with start_server(KEYED) as server:
        (refused,) = records(server, HttpLoad(concurrency=1, num_requests=1))
    assert (refused.outcome, refused.status) == ("rejected", 401)
    assert "API key" in refused.message
    (broken,) = records(server, HttpLoad(concurrency=1, num_requests=1))
    assert (broken.outcome, broken.status) == ("broken", 0)
    assert broken.message


def test_connections_are_kept() -> None:
    async def speak_twice(server: RunningServer) -> tuple[Record, Record, int]:
        target = target_of(server.base_url, api_key="key", fields={"response_format": "pcm"})
        with closing(SpeechClient(target)) as client:
            first = await client.speak(0, "One.", time.monotonic())
            second = await client.speak(1, "One.", time.monotonic())
            return first, second, len(client._idle)

    with start_server(KEYED) as server:
        first, second, num_idle = asyncio.run(speak_twice(server))
    assert (first.outcome, second.outcome) == ("ok", "ok")
    assert num_idle == 1


def test_a_report_says_what_was_measured_and_on_what() -> None:
    told: list[HttpResult] = []
    with start_server(TOY) as server:
        target = target_of(f"{server.base_url}/v1", api_key=None, fields={"response_format": "pcm"})
        loads = [HttpLoad(concurrency=2, num_requests=5), HttpLoad(rate_hz=100, num_requests=3)]
        plan = HttpPlan(target=target, loads=loads, texts=TEXTS, num_processes=2)
        report: Mapping[str, Any] = json.loads(json.dumps(measure(plan, told.append)))
    assert [each["outcomes"] for each in report["results"]] == [{"ok": 5}, {"ok": 3}]
    assert [each.concurrency for each in told] == [2, 0]
    assert {"measured_at", "command", "antiphon", "python", "packages", "gpus"} <= report.keys()
    assert report["loads"][0]["concurrency"] == 2
    for each in report["results"]:
        assert each["audio_s_per_s"] > 0
        assert each["playback"]["continuity"] <= 1
        assert set(each["first_audio_ms"]) == {"p50", "p90", "p95", "p99", "mean", "max"}


def test_it_is_told_how_far_a_load_is() -> None:
    told: list[tuple[str, int, int]] = []

    def tell(part: str, num_done: int, num_all: int) -> None:
        told.append((part, num_done, num_all))

    with start_server(TOY) as server:
        target = target_of(server.base_url, api_key=None, fields={"response_format": "pcm"})
        loads = [HttpLoad(concurrency=2, num_requests=5), HttpLoad(rate_hz=50, duration_s=0.5)]
        plan = HttpPlan(target=target, loads=loads, texts=TEXTS, num_processes=2)
        measure(plan, lambda _: None, tell)
    assert [each for each in told if each[0] == "loads"] == [("loads", n, 2) for n in range(3)]
    requests = [each for each in told if each[0] != "loads"]
    assert requests[-1] == ("2 streams, requests", 5, 5)
    assert requests == sorted(requests)


@pytest.mark.parametrize("url", ["", "127.0.0.1:8000", "ftp://127.0.0.1", "http://"])
def test_only_addresses_of_servers_are_measured(url: str) -> None:
    with pytest.raises(SettingsError):
        target_of(url, api_key=None, fields={"response_format": "pcm"})


def test_only_audio_of_known_length_is_measured() -> None:
    with pytest.raises(SettingsError):
        target_of("http://127.0.0.1", api_key=None, fields={"response_format": "mp3"})
