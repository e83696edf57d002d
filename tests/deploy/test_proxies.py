"""Streams, WebSockets and recordings through the blocks for nginx and Caddy in `deploy/`."""

import asyncio
import re
import shutil
import socket
import ssl
import subprocess
from collections.abc import AsyncGenerator, Callable, Generator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from websockets.sync.client import connect

from tests.servers import RunningServer, server_of, wait_until
from tests.sockets import Client, audio

DEPLOY = Path(__file__).parents[2] / "deploy"
HOST = "127.0.0.1"
READ_TIMEOUT_S = 20


@dataclass(frozen=True)
class Proxy:
    """A proxy that runs: its port, and the certificate that it shows."""

    port: int
    certificate: Path


def on_app(app: FastAPI) -> None:
    """Add a stream that is held until its first piece has arrived, and a measure of bodies."""
    has_arrived = asyncio.Event()

    async def pieces() -> AsyncGenerator[bytes, None]:
        yield b"first"
        await has_arrived.wait()
        yield b"last"

    async def held(_: Request) -> Response:
        has_arrived.clear()
        return StreamingResponse(pieces(), media_type="audio/mpeg")

    async def release(_: Request) -> Response:
        has_arrived.set()
        return Response()

    async def received(request: Request) -> Response:
        names = ("host", "x-forwarded-for", "x-forwarded-proto")
        headers = {name: request.headers.get(name) for name in names}
        return JSONResponse({"length": len(await request.body()), **headers})

    app.router.routes[:0] = [
        Route("/held", held),
        Route("/release", release),
        Route("/received", received, methods=["POST"]),
    ]


server = server_of(on_app=on_app)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of this machine's own, with its key beside it."""
    folder = tmp_path_factory.mktemp("tls")
    subject = ("-subj", "/CN=test", "-addext", f"subjectAltName=IP:{HOST}")
    files = ("-keyout", folder / "key.pem", "-out", folder / "cert.pem")
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2")
    command = ("openssl", "req", "-x509", *key, *subject, *files)
    subprocess.run(command, check=True, capture_output=True)
    return folder / "cert.pem"


def nginx(folder: Path, port: int, http_port: int, certificate: Path) -> list[str]:
    block = (folder / "conf").read_text()
    block = block.replace("listen 443", f"listen {HOST}:{port}")
    block = block.replace("listen 80", f"listen {HOST}:{http_port}")
    key = certificate.with_name("key.pem")
    block, found = re.subn(r"(ssl_certificate +)[^;]+", rf"\g<1>{certificate}", block)
    block, more = re.subn(r"(ssl_certificate_key +)[^;]+", rf"\g<1>{key}", block)
    assert (found, more) == (1, 1)
    parts = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temporary = "".join(f"{part}_temp_path {folder}/{part};" for part in parts)
    (folder / "conf").write_text(
        f"daemon off; pid {folder}/pid; error_log stderr; events {{}}"
        f" http {{ access_log off; {temporary} {block} }}"
    )
    subprocess.run(["nginx", "-t", "-c", folder / "conf"], check=True, capture_output=True)
    return ["nginx", "-c", str(folder / "conf")]


def caddy(folder: Path, port: int, http_port: int, certificate: Path) -> list[str]:
    block = (folder / "conf").read_text()
    tls = f"https://{HOST}:{port} {{\n\ttls {certificate} {certificate.with_name('key.pem')}"
    block = block.replace("speech.example.org {", tls)
    options = f"{{\n\tadmin off\n\thttp_port {http_port}\n}}\n"
    (folder / "conf").write_text(options + block)
    return ["caddy", "run", "--adapter", "caddyfile", "--config", str(folder / "conf")]


def free_ports(count: int) -> list[int]:
    listeners = [socket.create_server((HOST, 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in listeners]
    for listener in listeners:
        listener.close()
    return ports


@pytest.fixture(scope="module", params=[(nginx, "nginx.conf"), (caddy, "Caddyfile")])
def proxy(
    request: pytest.FixtureRequest,
    server: RunningServer,
    certificate: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Generator[Proxy, None, None]:
    """A proxy with the block of `deploy/`, of which names, ports and certificates are replaced."""
    command_of: Callable[[Path, int, int, Path], list[str]]
    command_of, name = request.param
    if shutil.which(command_of.__name__) is None:
        pytest.skip(f"{command_of.__name__} is not installed")
    folder = tmp_path_factory.mktemp(name)
    block = (DEPLOY / name).read_text()
    assert "127.0.0.1:8000" in block
    (folder / "conf").write_text(block.replace("127.0.0.1:8000", f"{HOST}:{server.port}"))
    port, http_port = free_ports(2)
    command = command_of(folder, port, http_port, certificate)
    environment = {"PATH": "/usr/sbin:/usr/bin:/bin", "HOME": str(folder)}
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)

    def listens() -> bool:
        assert process.poll() is None, log.read_text()
        with socket.socket() as dialling:
            return dialling.connect_ex((HOST, port)) == 0

    try:
        wait_until(listens)
        yield Proxy(port, certificate)
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture
def client(proxy: Proxy) -> Generator[httpx.Client, None, None]:
    context = ssl.create_default_context(cafile=str(proxy.certificate))
    url = f"https://{HOST}:{proxy.port}"
    with httpx.Client(base_url=url, verify=context, timeout=READ_TIMEOUT_S) as client:
        yield client


def test_a_piece_arrives_before_the_next_one_is_made(client: httpx.Client) -> None:
    with client.stream("GET", "/held") as response:
        pieces = response.iter_raw()
        assert next(pieces) == b"first"
        client.get("/release").raise_for_status()
        assert b"".join(pieces) == b"last"


def test_speech_is_the_same_as_without_a_proxy(client: httpx.Client, server: RunningServer) -> None:
    body = {"input": "Hello there.", "seed": 1}
    direct = httpx.post(f"{server.base_url}/v1/audio/speech", json=body)
    assert client.post("/v1/audio/speech", json=body).content == direct.content


def test_recordings_arrive_with_the_clients_address(client: httpx.Client) -> None:
    recording, headers = bytes(3 * 2**20), {"Content-Type": "multipart/form-data; boundary=-"}
    response = client.post("/received", content=recording, headers=headers)
    assert response.status_code == 200, response.text
    assert response.json() == {
        "length": len(recording),
        "host": str(client.base_url.netloc, "ascii"),
        "x-forwarded-for": HOST,
        "x-forwarded-proto": "https",
    }


def test_a_websocket_speaks(proxy: Proxy) -> None:
    context = ssl.create_default_context(cafile=str(proxy.certificate))
    url = f"wss://{HOST}:{proxy.port}/v1/audio/speech/stream"
    with connect(url, ssl=context, proxy=None) as connection:
        spoken = Client(connection)
        spoken.send("session.config", response_format="pcm")
        spoken.send("input.text", text="Hello there.")
        spoken.send("input.done")
        assert audio(spoken.until("session.done"))
