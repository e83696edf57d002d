"""`antiphon say` writes what the model says: whole files or none, in the format that was asked."""

import io
import os
import subprocess
import sys
import threading
import wave
from pathlib import Path

import numpy as np
import pytest

from antiphon import Antiphon, SpeechRequest
from antiphon.contracts.types import Samples
from antiphon.formats import AudioFormat
from tests import faulty
from tests.cli.conftest import DEADLINE_S, Run
from tests.decoding import decoded, told_length

TEXT = "Hello there."
TOY = ("--model", "toy", "--seed", "3")


def spoken(text: str = TEXT, **fields: object) -> Samples:
    with Antiphon.load("toy") as antiphon:
        return antiphon.speech(SpeechRequest(text, seed=3, **fields)).samples  # type: ignore[arg-type]


def wav_samples(data: bytes) -> Samples:
    with wave.open(io.BytesIO(data)) as file:
        assert (file.getnchannels(), file.getsampwidth()) == (1, 2)
        return (np.frombuffer(file.readframes(10**9), "<i2") / 32767).astype(np.float32)


def test_the_default_file_holds_exactly_the_speech(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run("say", TEXT, *TOY)
    assert done.exit_code == 0, done.stderr
    data = Path("speech.wav").read_bytes()
    np.testing.assert_allclose(wav_samples(data), spoken(), atol=1 / 32767)
    with wave.open("speech.wav") as file:  # its header tells the true length
        assert 44 + 2 * file.getnframes() == len(data)
    assert os.listdir(tmp_path) == ["speech.wav"]
    assert done.stdout == ""
    assert "speech.wav: 0.96 s of audio" in done.stderr


@pytest.mark.parametrize("format", list(AudioFormat))
def test_the_suffix_names_the_format(run: Run, tmp_path: Path, format: AudioFormat) -> None:
    path = tmp_path / f"speech.{format.upper()}"
    assert run("say", TEXT, "-o", str(path), *TOY).exit_code == 0
    samples, rate_hz = decoded(path.read_bytes(), format, 24_000)
    padding_s = 0.1  # what mp3 and aac add
    assert len(samples) / rate_hz == pytest.approx(len(spoken()) / 24_000, abs=padding_s)


@pytest.mark.parametrize("format", ["mp3", "opus", "flac", "wav"])
def test_a_file_tells_how_long_it_is(run: Run, tmp_path: Path, format: str) -> None:
    path = tmp_path / f"speech.{format}"
    assert run("say", TEXT, "-o", str(path), *TOY).exit_code == 0
    assert told_length(path.read_bytes(), 24_000) == len(spoken())


@pytest.mark.skipif(sys.platform == "win32", reason="needs a shell")
@pytest.mark.parametrize("is_appended", [False, True])
def test_a_file_that_the_shell_opened_keeps_what_it_holds(
    tmp_path: Path, is_appended: bool
) -> None:
    """Its header is written again only where it can be: ``>>`` puts all at the end."""
    path = tmp_path / "speech.flac"
    say = [sys.executable, "-m", "antiphon", "say", TEXT, "-o", "-", "--format", "flac", *TOY]
    with path.open("ab" if is_appended else "wb") as file:
        file.write(b"before")
        file.flush()
        subprocess.run(say, stdout=file, check=True, timeout=DEADLINE_S)
        subprocess.run(["echo", "after"], stdout=file, check=True, timeout=DEADLINE_S)
    content = path.read_bytes()
    assert content.startswith(b"before")
    assert content.endswith(b"after\n")
    speech = content.removeprefix(b"before").removesuffix(b"after\n")
    assert len(decoded(speech, "flac", 24_000)[0]) == len(spoken())
    if not is_appended:
        assert told_length(speech, 24_000) == len(spoken())


def test_flags_reach_the_request(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "speech.wav"
    flags = ("--voice", "bass", "--speed", "2", "--sample-rate", "16000", "--language", "german")
    assert run("say", TEXT, "-o", str(path), *TOY, *flags).exit_code == 0
    expected = spoken(voice="bass", speed=2.0, sample_rate_hz=16_000, language="german")
    np.testing.assert_allclose(wav_samples(path.read_bytes()), expected, atol=1 / 32767)


def test_stdin_to_stdout(run: Run) -> None:
    done = run("say", "-", "-o", "-", *TOY, input=TEXT)
    assert done.exit_code == 0
    np.testing.assert_allclose(wav_samples(done.stdout_bytes), spoken(), atol=1 / 32767)
    assert done.stderr.startswith("stdout: ")
    raw = run("say", TEXT, "-o", "-", "--format", "pcm", *TOY).stdout_bytes
    assert raw == (np.round(spoken() * 32767).astype("<i2")).tobytes()


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_a_terminal_is_not_filled_with_bytes() -> None:
    terminal, its_other_end = os.openpty()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "antiphon", "say", TEXT, "-o", "-", *TOY],
            stdout=its_other_end,
            stderr=subprocess.PIPE,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
    finally:
        os.close(terminal)
        os.close(its_other_end)
    assert done.returncode == 1
    assert "stdout is a terminal" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-o", "speech.txt"), "Unknown audio format 'txt'. Available: mp3, opus"),
        (("--format", "ogg"), "Unknown audio format 'ogg'"),
        (("--voice", "nobody"), "There is no voice 'nobody'"),
        (("--speed", "9"), "speed"),
        (("-o", "no/such/folder/speech.wav"), "Cannot write no/such/folder/speech.wav"),
    ],
)
def test_a_mistake_is_told_and_leaves_no_file(
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run("say", TEXT, *TOY, *arguments)
    assert done.exit_code == 1
    assert message in done.stderr
    assert os.listdir(tmp_path) == []


def test_a_failure_midway_leaves_the_old_file(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    faulty.register(monkeypatch)
    path = tmp_path / "speech.wav"
    path.write_bytes(b"old")
    done = run("say", "2 chunks, then engine error", "-o", str(path), "--model", "faulty")
    assert done.exit_code == 1
    assert "antiphon: the script says so" in done.stderr
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["speech.wav"]


@pytest.mark.skipif(sys.platform == "win32", reason="needs a named pipe")
def test_a_pipe_is_written_to_not_replaced(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "pipe.wav"
    os.mkfifo(path)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(path.read_bytes()))
    reader.start()
    assert run("say", TEXT, "-o", str(path), *TOY).exit_code == 0
    reader.join(DEADLINE_S)
    assert path.is_fifo()
    np.testing.assert_allclose(wav_samples(read[0]), spoken(), atol=1 / 32767)


def test_what_the_voice_leaves_out_is_a_warning(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "speech.wav"
    done = run("say", "Hello 你好.", "-o", str(path), "--model", "hibari")
    assert done.exit_code == 0
    assert "has left out: 你好" in done.stderr
    refused = run("say", "你好", "-o", str(tmp_path / "none.wav"), "--model", "hibari")
    assert refused.exit_code != 0
    assert "'你好'" in refused.stderr
    assert os.listdir(tmp_path) == ["speech.wav"]
