"""``antiphon bench engine`` measures every load that it is told, and writes what it shows."""

import json
from pathlib import Path

from typer.testing import CliRunner

from antiphon.cli.main import app


def test_every_load_is_measured_and_written(tmp_path: Path) -> None:
    file = tmp_path / "bench.json"
    arguments = ["bench", "engine", "toy", "--concurrency", "1,2", "--frames", "20"]
    result = CliRunner().invoke(app, [*arguments, "--json", str(file)])
    assert result.exit_code == 0, result.output
    report = json.loads(file.read_text(encoding="utf-8"))
    assert [each["concurrency"] for each in report["results"]] == [1, 2]
    assert all(each["audio_s_per_s"] > 0 for each in report["results"])
    assert "audio-s / s" in result.output
