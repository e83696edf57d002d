"""The measurement of steps runs, prints its table, and says which rows have failed, and why."""

import json
from pathlib import Path

import pytest

from tests.diffusion import step_cost
from tests.diffusion.step_cost_row import measured

TINY = ["--device", "cpu", "--tiny", "--steps", "3", "--row-s", "900", "--budget-s", "2700"]


def measure(tmp_path: Path, *arguments: str) -> list[dict[str, object]]:
    file = tmp_path / "rows.json"
    step_cost.main([*TINY, "--json", str(file), *arguments])
    rows: list[dict[str, object]] = json.loads(file.read_text())
    return rows


@pytest.mark.parametrize("row", ["diffusers", "eager"])
def test_a_row_is_measured(row: str) -> None:
    given = {"subject": "wan", "row": row, "device": "cpu", "steps": 3, "is_tiny": True}
    result = measured(given)
    assert result["ms"] > 0
    assert result["notes"] == [], "it is finite"


@pytest.mark.slow  # three processes import PyTorch and diffusers
def test_rows_are_compared_with_diffusers_and_one_that_fails_hides_no_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step_cost, "_ROWS", ("diffusers", "unheard of", "eager"))
    rows = measure(tmp_path, "--only", "wan")
    assert [(row["row"], "error" in row) for row in rows] == [
        ("diffusers", False),
        ("unheard of", True),
        ("eager", False),
    ]
    assert rows[0]["ratio"] == 1
    assert isinstance(rows[2]["ratio"], float)
    assert "KeyError: 'unheard of'" in capsys.readouterr().out


@pytest.mark.slow  # a process begins to import PyTorch
def test_nothing_is_measured_when_the_time_is_over(tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        measure(tmp_path, "--only", "wan:eager", "--budget-s", "0")
    (row,) = json.loads((tmp_path / "rows.json").read_text())
    assert row["error"] == "the time is over"
