"""Servers behind TLS are measured if their certificate is one that the system trusts."""

import asyncio
import ssl
import subprocess
import time
from collections.abc import Generator
from contextlib import closing
from pathlib import Path

import pytest

from antiphon_bench.adapters import adapter
from antiphon_bench.connection import SpeechClient
from antiphon_bench.record import Record
from antiphon_bench.serve import target_of
from antiphon_bench.suite import SuitePlan, target_for
from antiphon_bench.text_socket import TextStreamClient
from tests.bench.odd_server import DURATION_S, OddServer, odd_server
from tests.bench.test_suite import cell

PCM = {"response_format": "pcm"}


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """Make one for 127.0.0.1 that nobody but a test trusts."""
    made = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=odd"]
    named = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "key.pem", "-out", "own.pem"]
    subprocess.run(
        ["openssl", "req", "-x509", *made, *named], cwd=tmp_path, check=True, capture_output=True
    )
    return tmp_path / "own.pem"


@pytest.fixture
def server(certificate: Path) -> Generator[OddServer, None, None]:
    own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    own.load_cert_chain(certificate, certificate.with_name("key.pem"))
    with odd_server(own) as running:
        yield running


def spoken(server: OddServer) -> Record:
    async def speak() -> Record:
        with closing(SpeechClient(target_of(url, api_key=None, fields=PCM))) as client:
            return await client.speak(0, "So.", time.monotonic())

    url = f"{server.base_url}/good"
    return asyncio.run(speak())


def test_a_trusted_server_is_measured(
    server: OddServer, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    found = spoken(server)
    assert (found.outcome, found.message) == ("ok", "")
    assert found.audio_s == pytest.approx(DURATION_S)


def test_a_server_that_nobody_vouches_for_is_not(server: OddServer) -> None:
    found = spoken(server)
    assert found.outcome == "broken"
    assert "certificate" in found.message.lower()
    assert server.requests == []


def test_text_streams_go_over_tls_too(
    server: OddServer, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    plan = SuitePlan(url=f"{server.base_url}/good", adapter=adapter("antiphon"), cells=())
    target = target_for(plan, cell(mode="text_stream"))
    found = asyncio.run(TextStreamClient(target).speak(0, "So.", time.monotonic()))
    assert found.outcome == "invalid"
    assert "There is no WebSocket: HTTP 200" in found.message


def test_the_port_is_that_of_the_scheme() -> None:
    targets = [
        target_of(f"{each}://speech.example/v1", api_key=None, fields=PCM)
        for each in ("http", "https")
    ]
    assert [(each.port, each.is_tls) for each in targets] == [(80, False), (443, True)]
