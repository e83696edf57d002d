"""`antiphon serve` says where it listens, serves there, and stops when it is told to."""

import re
import signal
import socket
import subprocess
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from antiphon.cli.flags import settings_of
from antiphon.cli.listen import bind, listened
from antiphon.cli.serve import ServeFlags
from antiphon.config import ServerSettings, Settings
from antiphon.config.sources import load_settings
from antiphon.errors import SettingsError
from tests.cli.conftest import DEADLINE_S, Run
from tests.servers import wait_until

Start = Callable[..., "subprocess.Popen[str]"]


@contextmanager
def serving(
    start: Start, *arguments: str, model: str = "toy"
) -> Generator[tuple["subprocess.Popen[str]", str], None, None]:
    """Start a server; give it and its address, and end it if it is still there."""
    with start("serve", model, "--port", "0", *arguments) as process:
        try:
            assert process.stdout is not None
            told = ""
            for line in process.stdout:
                told += line
                if "curl" in line:
                    break
            found = re.search(r"Page +(\S+)", told)
            assert found, f"it did not say where it listens: {told}"
            yield process, found[1]
        finally:
            process.kill()


@pytest.mark.usefixtures("either_server")
def test_it_serves_where_it_says_and_ends_cleanly_on_ctrl_c(start: Start) -> None:
    with serving(start, "--name", "my-voice", "--api-key", "sesame") as (process, url):
        models = httpx.get(f"{url}/v1/models").json()
        assert [model["id"] for model in models["data"]] == ["my-voice"]
        body = {"input": "Hello there."}
        assert httpx.post(f"{url}/v1/audio/speech", json=body).status_code == 401
        key = {"Authorization": "Bearer sesame"}
        answer = httpx.post(f"{url}/v1/audio/speech", json=body, headers=key)
        assert answer.status_code == 200
        assert "server" not in answer.headers
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0
    assert "Traceback" not in errors


@pytest.mark.usefixtures("either_server")
def test_a_second_ctrl_c_cuts_streams_and_leaves_no_traceback(start: Start) -> None:
    body = {"input": "Hello there. " * 5000, "response_format": "wav"}
    with (
        serving(start) as (process, url),
        httpx.stream("POST", f"{url}/v1/audio/speech", json=body) as answer,
    ):
        pieces = answer.iter_raw()
        next(pieces)
        process.send_signal(signal.SIGINT)
        wait_until(lambda: not listens(url))
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=DEADLINE_S)
        with pytest.raises(httpx.RemoteProtocolError):
            list(pieces)
    assert process.returncode == 0
    assert "Traceback" not in errors


def listens(url: str) -> bool:
    try:
        httpx.get(url)
    except httpx.TransportError:
        return False
    return True


@pytest.mark.usefixtures("either_server")
def test_a_port_in_use_is_told_in_one_line(run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run("serve", "toy", "--port", str(port))
    assert done.exit_code == 1
    assert done.stderr.splitlines() == [
        f"antiphon: 127.0.0.1:{port} is in use. Choose another port with --port;"
        " 0 picks a free one."
    ]


def test_all_addresses_of_a_name_get_the_same_port() -> None:
    sockets = bind(ServerSettings(host="localhost", port=0))
    try:
        assert len({bound.getsockname()[1] for bound in sockets}) == 1
        assert len({bound.family for bound in sockets}) == len(sockets)
    finally:
        for bound in sockets:
            bound.close()


@pytest.mark.parametrize("host", ["::", "0:0:0:0:0:0:0:0"])
def test_every_address_means_both_families(host: str) -> None:
    sockets = bind(ServerSettings(host=host, port=0, allow_no_key=True))
    try:
        port = sockets[0].getsockname()[1]
        assert {bound.getsockname()[1] for bound in sockets} == {port}
        assert f"0.0.0.0:{port}" in listened(sockets)
        if any(bound.family == socket.AF_INET6 for bound in sockets):
            assert f"[::]:{port}" in listened(sockets)
        for bound in sockets:
            bound.listen()
            family_host = "::1" if bound.family == socket.AF_INET6 else "127.0.0.1"
            socket.create_connection((family_host, port), timeout=DEADLINE_S).close()
    finally:
        for bound in sockets:
            bound.close()


def test_other_machines_are_not_served_without_a_key_by_oversight(run: Run) -> None:
    host = "0.0.0.0"
    done = run("serve", "toy", "--host", host, "--port", "0")
    assert done.exit_code == 1
    assert "Set one with --api-key or ANTIPHON_SERVER_API_KEYS" in done.stderr
    told: list[dict[str, Any]] = [
        {"api_keys": ("secret",)},
        {"api_keys_file": "f"},
        {"allow_no_key": True},
    ]
    for key in told:
        sockets = bind(ServerSettings(host=host, port=0, **key))
        assert sockets
        for bound in sockets:
            bound.close()


def test_an_empty_key_is_an_error(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    done = run("serve", "toy", "--port", "0", "--api-key", "")
    assert done.exit_code == 1
    assert "a key is empty" in done.stderr
    monkeypatch.setenv("ANTIPHON_SERVER_API_KEYS", "")
    done = run("serve", "toy", "--port", "0")
    assert done.exit_code == 1
    assert "ANTIPHON_SERVER_API_KEYS is empty" in done.stderr


def test_an_address_that_is_not_ours_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"Cannot listen on 203\.0\.113\.1:0"):
        bind(ServerSettings(host="203.0.113.1", port=0, allow_no_key=True))


def test_flags_not_given_leave_the_settings_alone() -> None:
    environment = {"ANTIPHON_SERVER_PORT": "1", "ANTIPHON_SERVER_API_KEYS": "a,b"}
    settings = load_settings(settings_of(ServeFlags()), environment=environment)
    assert settings.server.port == 1
    assert settings.server.api_keys == ("a", "b")


def test_every_flag_sets_its_setting() -> None:
    flags = ServeFlags(
        model="m",
        host="h",
        port=1,
        name="n",
        device="cuda:1",
        dtype="float32",
        max_slots=2,
        api_key=["a", "b"],
        allow_no_key=True,
        allowed_host=["d", "e"],
        cors_origin=["c"],
        max_input_characters=3,
        log_level="debug",
        data_dir=Path("d"),
    )
    settings = load_settings(settings_of(flags), environment={})
    model, server = settings.model, settings.server
    assert (model.source, model.name, model.device, model.dtype, model.max_slots) == (
        *("m", "n", "cuda:1", "float32"),
        2,
    )
    assert (server.host, server.port, server.log_level) == ("h", 1, "debug")
    assert (server.api_keys, server.cors_origins) == (("a", "b"), ("c",))
    assert (server.allow_no_key, server.allowed_hosts) == (True, ("d", "e"))
    assert settings.speech.max_input_characters == 3
    assert settings.data.folder == Path("d")


def test_help_shows_the_defaults_of_the_settings(run: Run) -> None:
    text = " ".join(run("serve", "--help").stdout.split())
    settings = Settings()
    for flag, default in (
        ("host", settings.server.host),
        ("port", settings.server.port),
        ("device", settings.model.device),
        ("dtype", settings.model.dtype),
        ("max-slots", settings.model.max_slots),
        ("max-input-characters", settings.speech.max_input_characters),
        ("log-level", settings.server.log_level),
        ("log-format", settings.server.log_format),
    ):
        assert re.search(rf"--{flag} [^-]*default: \({default}\)", text), flag


@pytest.mark.slow  # a checkpoint is made and served
def test_models_that_come_later_are_served_too(
    start: Start, checkpoint: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTIPHON_MODELS_LAZY", "true")
    monkeypatch.setenv("ANTIPHON_MODELS_MAX_LOADED", "1")
    source = checkpoint("tiny", "custom_voice")
    with serving(start, "--more", f"late={source}", "--device", "cpu") as (_, url):
        for name in ("late", "toy", "late"):
            body = {"input": "Hello there.", "model": name, "max_new_tokens": 6}
            answer = httpx.post(f"{url}/v1/audio/speech", json=body, timeout=DEADLINE_S)
            assert answer.status_code == 200, answer.text
