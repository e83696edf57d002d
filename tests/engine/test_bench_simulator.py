"""The simulator says what was measured, within a tenth, and the command tells where it does not."""

from dataclasses import replace

import pytest

from tests.engine.bench_simulator import MAX_DEVIATION, MEASURED, PREDICTED, Load, main, rows_of


@pytest.mark.parametrize("load", MEASURED, ids=[each.name for each in MEASURED])
def test_it_says_what_was_measured(load: Load) -> None:
    rows = rows_of(load)
    assert rows
    for row in rows:
        assert row.measured is not None
        assert abs(row.simulated - row.measured) <= MAX_DEVIATION * row.measured, row


@pytest.mark.parametrize("factor", [0.8, 1.2])
def test_what_disagrees_fails_the_command(
    factor: float, capsys: pytest.CaptureFixture[str]
) -> None:
    (load, *_) = MEASURED
    assert load.frame_ms is not None
    main([load])
    with pytest.raises(SystemExit) as ended:
        main([load, replace(load, frame_ms=load.frame_ms * factor)])
    assert ended.value.code == 1
    assert f"| {load.frame_ms * factor:.4g} |" in capsys.readouterr().out


def test_predictions_are_measured_nowhere() -> None:
    rows = rows_of(PREDICTED[1])
    assert {row.figure for row in rows} >= {"audio-s / s", "first p99 ms", "gapless %"}
    assert all(row.measured is None and row.agrees for row in rows)
