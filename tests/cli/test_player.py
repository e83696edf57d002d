"""Speech is played by the first player that is installed; a player that fails is named."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import numpy as np
import pytest

from antiphon.audio.wav import pcm16, wav_header
from antiphon.cli import player
from antiphon.cli.player import find_player
from antiphon.contracts.types import Samples
from antiphon.errors import AntiphonError
from tests.cli.conftest import DEADLINE_S

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs scripts as programs")

RATE_HZ = 24_000
SAMPLES = np.linspace(-0.9, 0.9, 3000, dtype=np.float32)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose programs are the only ones that can be found; there is no sounddevice."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(player, "find_spec", lambda name: None)
    return folder


def install(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{script}\n")
    path.chmod(0o755)


def play(samples: Samples = SAMPLES) -> None:
    found = find_player()
    assert found is not None
    with found(RATE_HZ, 1 if samples.ndim == 1 else samples.shape[1]) as write:
        for start in range(0, len(samples), 1000):
            write(samples[start : start + 1000])


@pytest.mark.parametrize(
    ("name", "arguments", "header"),
    [
        ("aplay", "-q -t raw -f S16_LE -r 24000 -c 2", b""),
        ("paplay", "--raw --format=s16le --rate=24000 --channels=2", b""),
        ("ffplay", "-nodisp -autoexit -loglevel error -i -", wav_header(RATE_HZ, None, 2)),
    ],
)
def test_a_program_gets_all_samples(
    programs: Path, name: str, arguments: str, header: bytes
) -> None:
    install(programs, name, f'echo "$*" > {programs}/arguments; cat > {programs}/played')
    stereo = np.stack((SAMPLES, -SAMPLES), axis=1)
    play(stereo)
    assert (programs / "arguments").read_text() == f"{arguments}\n"
    assert (programs / "played").read_bytes() == header + pcm16(stereo)


def test_a_program_of_files_gets_a_whole_one(programs: Path) -> None:
    install(programs, "afplay", f'cp "$1" {programs}/played')
    play()
    expected = wav_header(RATE_HZ, len(SAMPLES)) + pcm16(SAMPLES)
    assert (programs / "played").read_bytes() == expected


@pytest.mark.parametrize("name", ["aplay", "afplay"])
def test_a_program_that_fails_is_named_with_its_reason(programs: Path, name: str) -> None:
    install(programs, name, "echo; echo 'no sound card' >&2; exit 3")
    with pytest.raises(AntiphonError, match=rf"{name}: no sound card\. Write a file .* -o"):
        play(np.zeros(500_000, np.float32))  # more than a pipe holds


def test_without_any_there_is_none(programs: Path) -> None:
    assert find_player() is None


class Library(SimpleNamespace):
    """A sounddevice that records, or fails as without a device."""

    class PortAudioError(Exception):
        pass

    def OutputStream(self, rate_hz: int, **more: Any) -> Self:  # noqa: N802
        assert (rate_hz, more) == (RATE_HZ, {"channels": 1, "dtype": "float32"})
        if not self.devices:
            raise self.PortAudioError("Error querying device -1")
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None: ...

    def write(self, samples: Samples) -> None:
        self.devices.append(samples)


def test_sounddevice_comes_first(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(programs, "aplay", "exit 1")
    monkeypatch.setattr(player, "find_spec", lambda name: name == "sounddevice")
    library = Library(devices=[np.zeros((0, 1), np.float32)])
    monkeypatch.setitem(sys.modules, "sounddevice", library)
    play()
    np.testing.assert_array_equal(np.concatenate(library.devices)[:, 0], SAMPLES)
    library.devices.clear()
    with pytest.raises(AntiphonError, match="sounddevice: Error querying device"):
        play()


def test_on_a_terminal_say_plays(programs: Path, tmp_path: Path) -> None:
    install(programs, "aplay", f"cat > {programs}/played")
    (tmp_path / "sounddevice.py").write_text("raise OSError('PortAudio library not found')")
    paths = os.pathsep.join((str(tmp_path), *sys.path))
    terminal, its_other_end = os.openpty()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "antiphon", "say", "Hello there.", "--model", "toy"],
            stdout=its_other_end,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": paths},
            timeout=DEADLINE_S,
            check=False,
        )
    finally:
        os.close(terminal)
        os.close(its_other_end)
    assert done.returncode == 0, done.stderr
    assert "0.96 s of audio, the first after" in done.stderr
    assert len((programs / "played").read_bytes()) == 2 * round(0.96 * RATE_HZ)
    assert not (tmp_path / "speech.wav").exists()
