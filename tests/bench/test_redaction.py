"""No key is in a report or in a message, however it was given."""

import json

import pytest

from antiphon.errors import SettingsError
from antiphon_bench.load import HttpLoad
from antiphon_bench.machine import shown_command
from antiphon_bench.redaction import HIDDEN, Redaction, redaction_of
from antiphon_bench.serve import HttpPlan, measure, target_of
from tests.bench.odd_server import KEY, odd_server

PCM = {"response_format": "pcm"}


def test_keys_are_hidden_in_command_lines() -> None:
    hidden = Redaction().command(
        [
            *("bench", "suite", "--api-key", KEY, "--voice", "sky", f"--api-key={KEY}"),
            *("--field", f"api_key={KEY}", "--field", f'extra={{"auth": {{"token": "{KEY}"}}}}'),
            *(f"--field=password={KEY}", "--field", "max_tokens=9", "--url"),
            f"http://user:{KEY}@host:8000/v1?sig={KEY}&x=1",
        ]
    )
    assert KEY not in " ".join(hidden)
    assert hidden[:3] == ["bench", "suite", "--api-key"]
    assert {"--voice", "sky", "max_tokens=9", f"http://host:8000/v1?{HIDDEN}"} <= set(hidden)
    assert f'extra={{"auth": {{"token": "{HIDDEN}"}}}}' in hidden


def test_a_command_without_keys_is_told_as_it_is() -> None:
    told = ["bench", "serve", "--url", "http://[::1]:1/v1", "--rate", "1,2", "--field", "seed=7"]
    assert Redaction().command(told) == told
    assert Redaction().command(["--field", 'x={"a":1}']) == ["--field", 'x={"a":1}']


def test_folders_are_left_out_of_a_report() -> None:
    given = ["bench", "--json", "/home/someone/a.json", "--plot=/tmp/b.svg", "--rate", "1,2", "c/d"]
    shown = ["bench", "--json", "a.json", "--plot=b.svg", "--rate", "1,2", "c/d"]
    assert shown_command(given) == shown


def test_known_keys_are_hidden_wherever_they_are() -> None:
    fields = {"auth": {"api_key": KEY}, "seed": 3, "secret": 1234567}
    redaction = redaction_of("http://host/?code=abc%20defgh", "x1", fields)
    told = redaction.text(f"x1 of x123: '{KEY}', 1234567, abc defgh, abc%20defgh")
    assert told == f"{HIDDEN} of x123: '{HIDDEN}', {HIDDEN}, {HIDDEN}, {HIDDEN}"
    assert redaction.text("Authorization: Bearer abcdefghijk.l") == (
        f"Authorization: Bearer {HIDDEN}"
    )
    report = {"fields": fields, "errors": (f"no {KEY}",), "client_processes": 2, "none": None}
    assert redaction.value(report) == {
        "fields": {"auth": {"api_key": HIDDEN}, "seed": 3, "secret": HIDDEN},
        "errors": [f"no {HIDDEN}"],
        "client_processes": 2,
        "none": None,
    }


@pytest.mark.parametrize(
    "url",
    [
        f"http://user:{KEY}@127.0.0.1",
        f"ftp://127.0.0.1/?key={KEY}",
        f"http://127.0.0.1:port/?key={KEY}",
        f"http://[?key={KEY}",
        f"127.0.0.1:8000?key={KEY}",
        f"user:{KEY}@127.0.0.1",
        f"http://127.0.0.1:{KEY}@host",
    ],
)
def test_addresses_are_refused_without_their_keys(url: str) -> None:
    with pytest.raises(SettingsError) as refused:
        target_of(url, api_key=None, fields=PCM)
    assert KEY not in str(refused.value)


def test_a_server_that_repeats_a_key_does_not_put_it_into_a_report() -> None:
    with odd_server() as server:
        url = f"{server.base_url}/json_error?code={KEY}"
        target = target_of(url, api_key=KEY, fields={**PCM, "api_key": KEY})
        plan = HttpPlan(target=target, loads=[HttpLoad(concurrency=1, num_requests=1)])
        report = json.dumps(measure(plan, lambda _: None))
        assert KEY in server.requests[0], "it is sent"
    assert "Out of memory" in report
    assert KEY not in report
