"""The built wheel, alone in an empty environment, starts a server; the benchmarks can join it."""

import re
import signal
import subprocess
import sys
import tomllib
from collections.abc import Generator
from pathlib import Path

import httpx
import pytest

from tests.decoding import decoded

ROOT = Path(__file__).parent.parent
BANNER_TIMEOUT_S = 60

pytestmark = pytest.mark.slow  # installs every base dependency anew


def built(project: Path, folder: Path) -> Path:
    build = (sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder)
    subprocess.run((*build, project), check=True, capture_output=True)
    return max(folder.glob("*.whl"), key=lambda wheel: wheel.stat().st_mtime_ns)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(ROOT, tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def uv() -> Path:
    """The program ``uv``: it resolves without downloading packages, and runs wheels as ``uvx``."""
    subprocess.run((ROOT / "scripts" / "tool", "uv==0.13.9"), check=True, capture_output=True)
    return ROOT / ".venv-tools" / "bin" / "uv"


@pytest.fixture(scope="module")
def antiphon(wheel: Path, uv: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel and nothing else, and return its command."""
    folder = tmp_path_factory.mktemp("wheel") / "empty"
    subprocess.run((uv, "venv", "--seed", folder), check=True, capture_output=True)
    constraints = ("--constraint", ROOT / "constraints.txt")
    # The dependencies by uv, which takes a tenth of the time, and then the wheel by pip.
    packages = (uv, "pip", "install", "--python", folder, wheel, *constraints)
    subprocess.run(packages, check=True, capture_output=True)
    again = ("install", "--quiet", "--no-index", "--force-reinstall", "--no-deps", wheel)
    subprocess.run((folder / "bin" / "python", "-m", "pip", *again), check=True)
    return folder / "bin" / "antiphon"


@pytest.fixture
def base_url(antiphon: Path, tmp_path: Path) -> Generator[str, None, None]:
    """Start ``antiphon serve`` far from the sources, and return the address that it prints."""
    server = subprocess.Popen(
        (antiphon, "serve", "--port", "0"),
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert server.stdout is not None
    printed = ""
    try:
        for line in server.stdout:
            printed += line
            if found := re.search(r"http://127\.0\.0\.1:\d+", line):
                yield found.group()
                break
        else:
            pytest.fail(f"it never listened: {printed}")
    finally:
        server.send_signal(signal.SIGINT)
        try:
            server.communicate(timeout=BANNER_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            server.kill()
            raise
    assert server.returncode == 0


def test_it_serves_speech_and_its_page(base_url: str) -> None:
    body = {"input": "Hello there.", "seed": 1}
    response = httpx.post(f"{base_url}/v1/audio/speech", json=body, timeout=60)
    response.raise_for_status()
    samples, rate_hz = decoded(response.content, "mp3", 24000)
    assert len(samples) / rate_hz > 0.5
    page = httpx.get(base_url)
    assert "<script" in page.text
    for asset in re.findall(r'(?:src|href)="(/static/[^"]+)"', page.text):
        assert httpx.get(base_url + asset).status_code == 200
    assert "Speech from a URL" in httpx.get(f"{base_url}/guides/docs/api.md").text


def test_it_says_in_process(antiphon: Path, tmp_path: Path) -> None:
    say = (antiphon, "say", "Hello there.", "-o", tmp_path / "hello.opus")
    subprocess.run(say, check=True, capture_output=True, cwd=tmp_path)
    samples, rate_hz = decoded((tmp_path / "hello.opus").read_bytes(), "opus", 24000)
    assert len(samples) / rate_hz > 0.5


def test_uvx_runs_it_without_installing_it(wheel: Path, uv: Path, tmp_path: Path) -> None:
    say = ("tool", "run", "--from", wheel, "antiphon", "say", "Hello there.", "-o", "hello.wav")
    done = subprocess.run((uv, *say), capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    samples, rate_hz = decoded((tmp_path / "hello.wav").read_bytes(), "wav", 24000)
    assert len(samples) / rate_hz > 0.5


@pytest.mark.parametrize("python", ["3.11", "3.13"])
def test_all_its_extras_can_be_installed_together(wheel: Path, uv: Path, python: str) -> None:
    """On every platform, with the newest packages of today: nobody else has our constraints."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    resolve = ("pip", "compile", "--universal", "--python-version", python, "--quiet", "-")
    done = subprocess.run(
        (uv, *resolve),
        input=f"antiphon[{','.join(extras)}] @ {wheel.as_uri()}",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    resolved = {line.partition("==")[0] for line in done.stdout.splitlines()}
    wanted = {re.split(r"[^\w-]", line)[0] for extra in extras.values() for line in extra}
    assert {name.lower().replace("_", "-") for name in wanted} - {"antiphon"} <= resolved


def test_it_is_typed_and_brings_no_torch(antiphon: Path) -> None:
    packages = next((antiphon.parent.parent / "lib").glob("python*")) / "site-packages"
    assert (packages / "antiphon" / "py.typed").exists()
    assert not (packages / "torch").exists()
    assert not (packages / "tests").exists()


def test_it_brings_the_shipped_placements(antiphon: Path) -> None:
    listed = subprocess.run((antiphon, "placement", "list"), check=True, capture_output=True)
    assert b"four-talkers-one-codec" in listed.stdout


def test_it_has_benchmarks_once_these_are_installed(antiphon: Path, tmp_path: Path) -> None:
    bench = (antiphon, "bench", "engine", "toy", "--concurrency", "1", "--frames", "5")
    without = subprocess.run(bench, capture_output=True, text=True, check=False)
    assert without.returncode == 1
    assert without.stderr.count("\n") == 1
    assert "antiphon-bench" in without.stderr
    commands = subprocess.run((antiphon, "--help"), check=True, capture_output=True, text=True)
    assert " bench " not in commands.stdout
    wheel = built(ROOT / "bench", tmp_path)
    assert f"./{wheel.name.replace('0.1.0', 'VERSION')}" in without.stderr
    install = (antiphon.parent / "python", "-m", "pip", "install", "--no-index", wheel)
    subprocess.run(install, check=True, capture_output=True)
    measured = subprocess.run(bench, check=True, capture_output=True, text=True, cwd=tmp_path)
    assert "audio-s / s" in measured.stdout
    commands = subprocess.run((antiphon, "--help"), check=True, capture_output=True, text=True)
    assert " bench " in commands.stdout
