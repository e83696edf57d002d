"""`scripts/setup` and PyTorch: what is installed stays, and a machine without a GPU gets no CUDA.

It runs with a real pip, in a project of two files, on packages that are empty.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Generator
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from antiphon.errors import how_to_install
from tests.wheels import write_wheel

ROOT = Path(__file__).parent.parent
PINNED = "2.13.0"
REQUIRES = "torch>=2.8; extra == 'torch'"
EXTRAS = {
    "antiphon": {"requires": REQUIRES, "extra": "torch"},
    "antiphon_bench": {"requires": "antiphon[torch]; extra == 'quality'", "extra": "quality"},
}
BACKEND = """
import sys
sys.path.insert(0, {tests!r})
from wheels import write_wheel

def build_editable(folder, settings=None, metadata=None):
    return write_wheel(folder, {name!r}, "0.1.0", {requires!r}, {extra!r})
"""
PYPROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "{name}"
version = "0.1.0"
"""

pytestmark = [
    pytest.mark.slow,  # makes environments with a real pip
    pytest.mark.skipif(sys.platform != "linux", reason="only there do builds differ"),
]


class _Index(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Tell nobody."""


@dataclass(frozen=True)
class Checkout:
    """A project with the script, a registry with a CUDA build, and an index of CPU builds."""

    folder: Path
    cpu_index: str

    def setup(
        self, extras: str = "torch", *, has_gpu: bool = False, cpu_index: str | None = None
    ) -> str:
        """Run the script; return what it said."""
        smi = self.folder / "bin" / "nvidia-smi"
        smi.write_text(f"#!/bin/sh\nexit {0 if has_gpu else 1}\n")
        smi.chmod(0o755)
        pip = {"PIP_CONFIG_FILE": os.devnull, "PIP_FIND_LINKS": str(self.folder / "registry")}
        done = subprocess.run(
            [self.folder / "scripts" / "setup", extras],
            env={
                "PATH": f"{smi.parent}:{os.environ['PATH']}",
                "HOME": str(self.folder),
                "PYTHON": sys.executable,
                "PYTORCH_CPU_INDEX": self.cpu_index if cpu_index is None else cpu_index,
                # The registry is a folder: nothing else is asked but the index of CPU builds.
                "PIP_INDEX_URL": (self.folder / "registry").as_uri(),
                **pip,
            },
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout == "", "stdout belongs to whoever called"
        return done.stderr

    def installed(self) -> str | None:
        found = list((self.folder / ".venv").glob("lib/*/site-packages/torch-*.dist-info"))
        return found[0].name.removeprefix("torch-").removesuffix(".dist-info") if found else None

    def install(self, version: str) -> None:
        """Install PyTorch, as its site tells."""
        self.pip("--no-index", self.folder / write_wheel(self.folder, "torch", version))

    def pip(self, *arguments: str | Path) -> None:
        pip = (self.folder / ".venv" / "bin" / "python", "-m", "pip", "install")
        subprocess.run([*pip, *arguments], check=True, capture_output=True)

    def wheel(self) -> str:
        """Make a wheel of the project; return the file's name."""
        return write_wheel(self.folder, "antiphon", "0.1.0", REQUIRES, "torch")


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with pip and nothing else, to be copied: making one takes seconds."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    return folder


@pytest.fixture
def checkout(tmp_path: Path, environment: Path) -> Generator[Checkout, None, None]:
    for name in ("scripts", "bin", "bench", "registry", "index/torch"):
        (tmp_path / name).mkdir(parents=True)
    shutil.copy(ROOT / "scripts" / "setup", tmp_path / "scripts")
    for name, folder in (("antiphon", tmp_path), ("antiphon_bench", tmp_path / "bench")):
        (folder / "pyproject.toml").write_text(PYPROJECT.format(name=name))
        (folder / "backend.py").write_text(
            BACKEND.format(tests=str(Path(__file__).parent), name=name, **EXTRAS[name])
        )
    (tmp_path / "constraints.txt").write_text(f"numpy==2.4.6\ntorch=={PINNED}\ntriton==3.7.1\n")
    write_wheel(tmp_path / "registry", "torch", PINNED)
    write_wheel(tmp_path / "index" / "torch", "torch", f"{PINNED}+cpu")
    shutil.copytree(environment, tmp_path / ".venv", symlinks=True)
    handler = partial(_Index, directory=str(tmp_path / "index"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever).start()
        try:
            yield Checkout(tmp_path, f"http://127.0.0.1:{server.server_port}")
        finally:
            server.shutdown()


def test_without_a_gpu_the_cpu_build_is_installed(checkout: Checkout) -> None:
    assert "no NVIDIA GPU" in checkout.setup()
    assert checkout.installed() == f"{PINNED}+cpu"
    assert checkout.setup() == "", "nothing has changed"


def test_with_a_gpu_pytorch_comes_from_the_registry(checkout: Checkout) -> None:
    checkout.setup(has_gpu=True)
    assert checkout.installed() == PINNED


@pytest.mark.parametrize("cpu_index", ["", "http://127.0.0.1:9"])
def test_without_an_index_of_cpu_builds_the_registry_has_to_do(
    checkout: Checkout, cpu_index: str
) -> None:
    told = checkout.setup(cpu_index=cpu_index)
    assert ("cannot be reached" in told) == bool(cpu_index)
    assert checkout.installed() == PINNED


def test_an_index_without_this_version_is_passed_over(checkout: Checkout) -> None:
    for wheel in (checkout.folder / "index" / "torch").iterdir():
        wheel.unlink()
    assert "That failed" in checkout.setup()
    assert checkout.installed() == PINNED


@pytest.mark.parametrize(
    ("version", "has_gpu"),
    [("2.9.0+cpu", False), ("2.9.0+cpu", True), ("2.14.0", False), (f"{PINNED}+cu128", False)],
)
def test_a_pytorch_that_is_there_is_never_replaced(
    checkout: Checkout, version: str, has_gpu: bool
) -> None:
    checkout.install(version)
    checkout.setup(has_gpu=has_gpu)
    assert checkout.installed() == version
    (checkout.folder / "pyproject.toml").write_text(
        PYPROJECT.format(name="antiphon") + "# changed\n"
    )
    checkout.setup(has_gpu=has_gpu)
    assert checkout.installed() == version
    constraints = (checkout.folder / ".venv" / ".constraints.txt").read_text().split()
    has_triton = version.partition("+")[0] == PINNED
    assert ("triton==3.7.1" in constraints) == has_triton, "each version names its own"


def test_pytorch_is_not_installed_where_nobody_wants_it(checkout: Checkout) -> None:
    checkout.setup("")
    assert checkout.installed() is None


def test_the_benchmarks_are_installed_and_their_extra_brings_pytorch(checkout: Checkout) -> None:
    assert "no NVIDIA GPU" in checkout.setup("quality,torch")
    assert checkout.installed() == f"{PINNED}+cpu"
    assert list((checkout.folder / ".venv").glob("lib/*/site-packages/antiphon_bench-*"))


def test_the_wheel_can_be_installed_with_an_extra_now_or_later(checkout: Checkout) -> None:
    wheel = checkout.folder / checkout.wheel()
    for wanted in (f"{wheel}", f"{wheel}[torch]"):
        checkout.pip("--no-index", "--find-links", checkout.folder / "registry", wanted)
        assert (checkout.installed() is not None) == wanted.endswith("[torch]")
    assert wheel.name.replace("0.1.0", "VERSION") in how_to_install("torch")
