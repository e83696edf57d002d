"""The image for the CPU is built, started and spoken to, where a container engine can be had.

Docker and Podman build it on the published base image. Buildah needs no daemon and no registry of
images: it builds on Debian's own packages.
"""

import os
import platform
import shutil
import subprocess
from collections.abc import Generator
from pathlib import Path

import httpx
import pytest

from tests.clients.wyoming import free_port
from tests.decoding import decoded
from tests.servers import wait_until

ROOT = Path(__file__).parents[2]
IMAGE = "antiphon-test"

pytestmark = pytest.mark.slow  # downloads a base image and every dependency


def _run(*command: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)


def _is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/ready").status_code == 200
    except httpx.TransportError:
        return False


def _speak(url: str) -> None:
    body = {"input": "Hello there.", "response_format": "wav", "stream": False}
    speech = httpx.post(f"{url}/v1/audio/speech", json=body, timeout=60).raise_for_status()
    samples, rate_hz = decoded(speech.content, "wav", 24_000)
    assert len(samples) / rate_hz > 0.5


@pytest.fixture(scope="module")
def engine() -> str:
    for name in ("docker", "podman"):
        if shutil.which(name) and _run(name, "info").returncode == 0:
            return name
    pytest.skip("no container engine answers")


@pytest.fixture(scope="module")
def container(engine: str) -> Generator[str, None, None]:
    """The image, built and started as its first lines tell, with nothing to write but volumes."""
    told = (ROOT / "deploy" / "Dockerfile").read_text()
    base = told.partition("\nARG PYTHON_IMAGE=")[2].split()[0]
    if _run(engine, "pull", base).returncode:
        pytest.skip(f"{base} cannot be pulled")
    built = _run(engine, "build", "-f", "deploy/Dockerfile", "-t", IMAGE, ".")
    assert built.returncode == 0, built.stderr
    flags = ("--detach", "--read-only", "--tmpfs", "/tmp", "--publish", "127.0.0.1::8000")
    started = _run(engine, "run", *flags, IMAGE, "--allow-no-key")
    assert started.returncode == 0, started.stderr
    name = started.stdout.strip()
    try:
        yield name
    finally:
        _run(engine, "rm", "--force", "--volumes", name)


def test_the_image_speaks_as_nobody_and_stops_when_it_is_told(engine: str, container: str) -> None:
    url = "http://" + _run(engine, "port", container, "8000/tcp").stdout.split()[0]
    wait_until(lambda: _is_ready(url))
    _speak(url)
    assert _run(engine, "exec", container, "id", "-u").stdout.strip() == "10001"
    assert _run(engine, "stop", container).returncode == 0
    state = _run(engine, "inspect", "--format", "{{.State.ExitCode}}", container)
    assert state.stdout.strip() == "0"


@pytest.mark.skipif(
    not (shutil.which("buildah") and shutil.which("mmdebstrap") and os.getuid() == 0),
    reason="needs root, buildah and mmdebstrap",
)
def test_the_image_that_buildah_builds_speaks(tmp_path: Path) -> None:
    release = platform.freedesktop_os_release()["VERSION_CODENAME"]
    packages = "--include=python3,python3-venv,python-is-python3,ca-certificates"
    base = tmp_path / "base.tar"
    if _run("mmdebstrap", "--variant=minbase", packages, release, str(base)).returncode:
        pytest.skip("Debian's packages cannot be had")

    store = ("--root", str(tmp_path / "store"), "--runroot", str(tmp_path / "run"))
    program = ("buildah", *store)

    def buildah(command: str, *arguments: str) -> str:
        done = _run(*program, command, *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    # pip reaches the package registry with the certificates of this machine.
    same = ("--isolation", "chroot", "--network", "host")
    certificates = ("--volume", "/etc/ssl/certs:/etc/ssl/certs:ro")
    started = _run(*program, "from", "scratch")
    container = started.stdout.strip()
    if started.returncode or _run(*program, "add", container, str(base), "/").returncode:
        pytest.skip("Buildah has no rights here")
    if _run(*program, "run", *same, container, "--", "true").returncode:
        pytest.skip("Buildah cannot start programs here")
    buildah("commit", "--rm", container, "base")
    file = ("--build-arg", "PYTHON_IMAGE=localhost/base", "--file", "deploy/Dockerfile")
    built = _run(*program, "bud", *same, *certificates, *file, "--tag", IMAGE, ".")
    if "No matching distribution" in built.stderr:
        pytest.skip("the package registry cannot be reached")
    assert built.returncode == 0, built.stderr
    container = buildah("from", f"localhost/{IMAGE}")
    port = str(free_port())
    serve = ("antiphon", "serve", "--port", port, "--allow-no-key")
    assert buildah("run", *same, container, "--", "id", "-u") == "10001"
    server = subprocess.Popen((*program, "run", *same, container, "--", *serve))
    try:
        url = f"http://127.0.0.1:{port}"
        wait_until(lambda: server.poll() is not None or _is_ready(url))
        _speak(url)
    finally:
        server.terminate()
        server.wait(30)
        buildah("rm", "--all")
