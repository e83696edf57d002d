"""Loading is shown on a terminal as bars, elsewhere as a few lines, and tells every byte."""

import signal
import subprocess
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

from antiphon import Antiphon
from antiphon.cli import progress
from antiphon.cli.progress import shown_progress
from tests.cli.conftest import DEADLINE_S, Run
from tests.families.qwen3_tts.brief import make_brief
from tests.families.qwen3_tts.random_checkpoint import make_checkpoint

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("checkpoint")
    make_checkpoint(path, size="tiny", task="custom_voice")
    make_brief(path)
    return path


def test_loading_tells_of_all_bytes(checkpoint: Path) -> None:
    told: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)

    def listen(part: str, num_done: int, num_all: int) -> None:
        told[part].append((num_done, num_all))

    Antiphon.load(str(checkpoint), progress=listen).close()
    assert {"talker", "codec"} <= told.keys()
    for steps in told.values():
        done = [num_done for num_done, _ in steps]
        assert done == sorted(set(done))
        assert {num_all for _, num_all in steps} == {done[-1]}
    stored = (checkpoint / "model.safetensors").stat().st_size
    assert 0.99 * stored < told["talker"][-1][0] < stored


def test_a_part_has_a_line_at_both_ends() -> None:
    lines: list[str] = []
    with shown_progress("loading", lines.append) as show:
        for part in ("talker", "codec"):
            for num_done in range(1_000_000, 10_000_001, 1_000_000):
                show(part, num_done, 10_000_000)
    assert lines == [
        "loading talker: 1.0 of 10.0 MB",
        "loading talker: 10.0 of 10.0 MB",
        "loading codec: 1.0 of 10.0 MB",
        "loading codec: 10.0 of 10.0 MB",
    ]


def test_steps_are_counted() -> None:
    lines: list[str] = []
    with shown_progress("loading", lines.append) as show:
        for num_done in (1, 2, 3):
            show("graphs", num_done, 3)
    assert lines == ["loading graphs: 1 of 3", "loading graphs: 3 of 3"]


def test_a_long_silence_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN_LINES", 0.0)
    lines: list[str] = []
    with shown_progress("loading", lines.append) as show:
        for num_done in range(5):
            show("talker", num_done, 5)
    assert len(lines) == 5


def test_on_a_terminal_there_is_a_bar_a_part(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # which rich takes for a terminal
    lines: list[str] = []
    with shown_progress("loading", lines.append) as show:
        show("talker", 1_000_000, 2_000_000)
        show("codec", 3_000_000, 3_000_000)
        show("talker", 2_000_000, 2_000_000)
    shown = capsys.readouterr()
    assert "loading talker" in shown.err
    assert "2.0 of 2.0 MB" in shown.err
    assert "3.0 of 3.0 MB" in shown.err
    assert (lines, shown.out) == ([], "")


def test_say_shows_it_on_stderr(run: Run, checkpoint: Path, tmp_path: Path) -> None:
    file = tmp_path / "speech.wav"
    done = run("say", "Hi.", "--model", str(checkpoint), "-o", str(file), "--seed", "1")
    assert done.exit_code == 0, done.output
    assert "loading codec: " in done.stderr
    assert done.stdout == ""


@pytest.mark.slow  # a checkpoint is made and served
def test_serve_logs_it(start: Start, checkpoint: Path) -> None:
    with start("serve", str(checkpoint), "--port", "0") as process:
        try:
            assert process.stdout is not None
            assert any("curl" in line for line in process.stdout), "it never listened"
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=DEADLINE_S)
        finally:
            process.kill()
    assert "loading talker: " in errors
    assert "loading codec: " in errors
