"""``antiphon bench quality`` judges files and servers, and writes a card."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.servers import TOY, start_server


def test_a_server_is_judged_and_its_card_written(run: Run, tmp_path: Path) -> None:
    file, card, texts = tmp_path / "q.json", tmp_path / "q.md", tmp_path / "texts"
    texts.write_text("One text.\nAnother text.\n", encoding="utf-8")
    more = ["--metrics", "defects,prosody", "--text-file", str(texts), "--title", "A toy"]
    with start_server(TOY) as server:
        files = ["--json", str(file), "--markdown", str(card)]
        result = run("quality", "--url", server.base_url, *more, *files)
    assert result.exit_code == 0, result.output
    report = json.loads(file.read_text(encoding="utf-8"))
    assert [each["name"] for each in report["recordings"]] == ["line 1", "line 2"]
    assert report["summary"]["audio_s"] > 0
    assert card.read_text(encoding="utf-8").startswith("# A toy\n")
    assert "| recordings | 2 |" in result.output


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--model", "toy", "--url", "http://127.0.0.1:1"],
        ["--url", "http://127.0.0.1:1", "--metrics", "beauty"],
        ["--url", "http://127.0.0.1:1"],
        ["no such file.wav"],
    ],
)
def test_what_makes_no_sense_is_refused(run: Run, arguments: list[str]) -> None:
    result = run("quality", *arguments)
    assert result.exit_code == 1
    assert result.output.startswith("antiphon: ")
