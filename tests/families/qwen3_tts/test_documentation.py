"""What docs/qwen3-tts.md shows is run as it stands, on checkpoints of random weights."""

import re
import shutil
import subprocess
import sys
import wave
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from antiphon.config import ModelSettings, Settings
from antiphon.families.qwen3_tts.config import CheckpointTask
from antiphon.families.qwen3_tts.options import Qwen3TTSOptions
from tests.decoding import decoded
from tests.families.qwen3_tts.brief import make_brief
from tests.families.qwen3_tts.oracle.cases import SAMPLE_RATE_HZ, reference_audio
from tests.families.qwen3_tts.random_checkpoint import Size
from tests.servers import start_server

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "qwen3-tts.md").read_text(encoding="utf-8")
SHOWN_URL = "http://127.0.0.1:8000"
SHOWN_CHECKPOINTS = {
    "CustomVoice": CheckpointTask.CUSTOM_VOICE,
    "VoiceDesign": CheckpointTask.VOICE_DESIGN,
    "Base": CheckpointTask.BASE,
}
SECTIONS = {
    "Built-in voices": CheckpointTask.CUSTOM_VOICE,
    "A designed voice": CheckpointTask.VOICE_DESIGN,
    "A cloned voice": CheckpointTask.BASE,
}
DEADLINE_S = 120

Checkpoint = Callable[[Size, CheckpointTask], Path]
TaskCheckpoint = Callable[[CheckpointTask], Path]


def blocks(section: str, language: str) -> list[str]:
    (text,) = re.findall(rf"^## {section}\n(.*?)(?=^## )", PAGE, re.MULTILINE | re.DOTALL)
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    samples = (reference_audio("short") * 32767).astype("<i2")
    with wave.open(str(tmp_path / "recording.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(SAMPLE_RATE_HZ)
        file.writeframes(samples.tobytes())
    return tmp_path


@pytest.fixture
def brief(checkpoint: Checkpoint, tmp_path_factory: pytest.TempPathFactory) -> TaskCheckpoint:
    """Return a checkpoint's directory by its task; random weights would speak for minutes."""

    @cache
    def make(task: CheckpointTask) -> Path:
        path = tmp_path_factory.mktemp(task.value)
        shutil.copytree(checkpoint("tiny", task), path, dirs_exist_ok=True)
        make_brief(path)
        return path

    return make


def run(command: list[str], folder: Path) -> None:
    done = subprocess.run(
        command,
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def assert_speech(folder: Path, names: set[str]) -> None:
    found = {path.name for path in folder.iterdir() if path.suffix in (".wav", ".mp3")}
    assert found - {"recording.wav"} == names
    for name in names:
        path = folder / name
        samples, _ = decoded(path.read_bytes(), path.suffix[1:], SAMPLE_RATE_HZ)
        assert np.abs(samples).max() > 0


@pytest.mark.slow  # each is a program of its own, which imports PyTorch
@pytest.mark.parametrize("section", SECTIONS)
def test_the_python_runs(section: str, brief: TaskCheckpoint, folder: Path) -> None:
    (code,) = blocks(section, "python")
    for name, task in SHOWN_CHECKPOINTS.items():
        shown = f"/models/Qwen3-TTS-12Hz-1.7B-{name}"
        code = code.replace(shown, str(brief(task)))
    run([sys.executable, "-c", code], folder)
    told = re.findall(r'save\(f?"(\S+\.wav)"\)', code)
    names = {name.replace("{number}", str(n)) for name in told for n in range(2)}
    assert_speech(folder, names)


@pytest.mark.slow  # each needs a server of its own
@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
@pytest.mark.parametrize("section", SECTIONS)
def test_the_curl_runs(section: str, brief: TaskCheckpoint, folder: Path) -> None:
    commands = blocks(section, "bash")
    assert commands
    source = str(brief(SECTIONS[section]))
    names = set()
    with start_server(Settings(model=ModelSettings(source=source))) as server:
        for command in commands:
            assert SHOWN_URL in command
            run(["sh", "-e", "-c", command.replace(SHOWN_URL, server.base_url)], folder)
            names |= set(re.findall(r"-o (\S+)", command))
    assert len(names) == len(commands)
    assert_speech(folder, names)


def test_every_field_is_explained() -> None:
    told = set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE))
    assert told >= set(Qwen3TTSOptions.model_fields)
