"""SIGTERM: what is under way is finished, nothing new begins, and the process ends well."""

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tests.cli.conftest import DEADLINE_S
from tests.cli.test_serve import Start, listens, serving
from tests.servers import wait_until
from tests.sockets import Client

LONG = {"input": "Hello there. " * 500, "response_format": "wav"}
URL = "/v1/audio/speech"


def ended(process: "subprocess.Popen[str]") -> int:
    _, errors = process.communicate(timeout=DEADLINE_S)
    assert "Traceback" not in errors
    return process.returncode


def is_draining(url: str) -> bool:
    return httpx.get(f"{url}/ready").status_code == 503


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let servers wait longer for what is under way than a busy machine may need for it."""
    monkeypatch.setenv("ANTIPHON_LIMITS_GRACE_S", "600")


@pytest.mark.usefixtures("either_server", "patient")
def test_what_is_under_way_is_heard_to_its_end_and_nothing_new_begins(start: Start) -> None:
    with serving(start) as (process, url):
        address = f"{url.replace('http', 'ws')}{URL}/stream"
        with (
            httpx.stream("POST", url + URL, json=LONG, timeout=DEADLINE_S) as answer,
            connect(address, max_size=None, proxy=None) as silent,
            connect(address, max_size=None, proxy=None) as speaking,
        ):
            # A connection without a configuration is closed after 10 seconds, which may pass here.
            Client(silent).send("session.config")
            talk = Client(speaking)
            talk.send("session.config", response_format="pcm", stream_audio=True)
            talk.send("input.text", text=LONG["input"])
            talk.send("input.done")
            talk.until(lambda each: isinstance(each, bytes))
            pieces = answer.iter_raw()
            next(pieces)
            process.send_signal(signal.SIGTERM)
            wait_until(lambda: is_draining(url))
            assert httpx.get(f"{url}/health").status_code == 200, "it is not to be killed"
            refused = httpx.post(url + URL, json={"input": "Hello."})
            assert refused.status_code == 503
            assert "retry-after" in refused.headers
            assert refused.headers["connection"] == "close"
            with pytest.raises(InvalidStatus) as unopened, connect(address, proxy=None):
                pass
            assert unopened.value.response.status_code == 503
            assert talk.until("session.done")
            assert sum(map(len, pieces)) > 1_000_000  # breaks if it is cut
            assert ended(process) == 0
            assert not Client(silent).rest()
            assert silent.close_code == 1012


def test_a_server_without_work_ends_at_once(start: Start) -> None:
    """Of several processes it is shown by every test that ends one, as `front_ends` does."""
    with serving(start) as (process, _):
        process.send_signal(signal.SIGTERM)
        assert ended(process) == 0


@pytest.mark.usefixtures("either_server")
@pytest.mark.parametrize(
    "grace_s",
    ["0.2", pytest.param("600", marks=pytest.mark.slow)],  # a server each
)
def test_a_stream_is_cut_by_the_end_of_its_grace_or_by_a_second_signal(
    start: Start, monkeypatch: pytest.MonkeyPatch, grace_s: str
) -> None:
    monkeypatch.setenv("ANTIPHON_LIMITS_GRACE_S", grace_s)
    body = {**LONG, "input": "Hello there. " * 7000}
    with (
        serving(start) as (process, url),
        httpx.stream("POST", url + URL, json=body, timeout=DEADLINE_S) as answer,
    ):
        pieces = answer.iter_raw()
        next(pieces)
        process.send_signal(signal.SIGTERM)
        if grace_s == "600":
            wait_until(lambda: is_draining(url))
            process.send_signal(signal.SIGTERM)
        assert ended(process) == 0
        assert not listens(url)
        with pytest.raises(httpx.RemoteProtocolError):
            list(pieces)


HANGING = """
import ctypes, pathlib, sys, time
from antiphon.cli.main import app
from antiphon.families.toy.codec import ToneCodec
decode = ToneCodec.decode_row
flag = pathlib.Path({flag!r})
ToneCodec.decode_row = lambda *all: flag.unlink() or {hang} if flag.exists() else decode(*all)
app()
"""


@pytest.mark.slow  # a hung process is given eight seconds
@pytest.mark.parametrize(
    ("hang", "setting", "is_told"),
    [
        ("time.sleep(600)", ("LIMITS_GRACE_S", "0.2"), True),
        ("ctypes.PyDLL(None).sleep(600)", ("LIMITS_EXIT_UNHEALTHY_S", "3"), False),
    ],
    ids=["thread", "interpreter"],
)
def test_a_process_that_hangs_ends_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    hang: str,
    setting: tuple[str, str],
    is_told: bool,
) -> None:
    """A thread that hangs, at the end of the grace; the whole interpreter, without a signal."""
    monkeypatch.setenv(f"ANTIPHON_{setting[0]}", setting[1])
    flag = tmp_path / "hang"
    code = HANGING.format(hang=hang, flag=str(flag))

    def start(*arguments: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-c", code, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    with serving(start) as (process, url), ThreadPoolExecutor(1) as pool:
        wait_until(lambda: httpx.get(f"{url}/ready").status_code == 200)
        flag.touch()
        pool.submit(httpx.post, url + URL, json={"input": "Hello."}, timeout=DEADLINE_S)
        wait_until(lambda: not flag.exists())  # it hangs
        if is_told:
            process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 1
    assert "most recent call first" in errors
