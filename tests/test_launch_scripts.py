"""The launch scripts take a model and a port as flags, and wait for the server that they start."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.test_readme import ROOT

SCRIPTS = sorted(path.name for path in (ROOT / "examples").glob("*agg_omni*.sh"))
CALL = '#!/bin/sh\necho "$(basename "$0") $*" >> "$CALLS"\n'
SERVER = f"{CALL}exec sleep 60\n"
CURL = f'{CALL}until grep -q ^antiphon "$CALLS"; do sleep 0.05; done\n'


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of what was called instead of the server and curl."""
    for name, script in (("antiphon", SERVER), ("curl", CURL)):
        (tmp_path / name).write_text(script)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    monkeypatch.setenv("IMAGE", "https://example.com/fox.jpg")
    return tmp_path / "calls"


def test_there_is_one_for_each_modality() -> None:
    assert {"agg_omni.sh", "agg_omni_audio.sh", "agg_omni_image.sh", "agg_omni_video.sh"} <= {
        *SCRIPTS
    }


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize(
    "flags", [("--model", "a/b", "--port", "8100"), ("--model=a/b", "--port=8100")]
)
def test_a_model_and_a_port_may_be_flags(
    script: str, flags: tuple[str, ...], calls: Path, tmp_path: Path
) -> None:
    bash = ["bash", str(ROOT / "examples" / script), *flags, "--name", "two words"]
    with subprocess.Popen(bash, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert any("The server goes on at" in line for line in running.stdout)
        running.terminate()
    called = re.split(r"^(?=curl |antiphon )", calls.read_text(), flags=re.MULTILINE)
    served, asked, is_ready = sorted(called[1:])
    assert served.startswith("antiphon serve a/b --output-modalities ")
    assert served.rstrip().endswith("--name two words")
    assert " --port 8100 " in served
    assert served.count("--port") == 1
    assert "http://127.0.0.1:8100/ready" in is_ready
    assert "http://127.0.0.1:8100/v1/" in asked
