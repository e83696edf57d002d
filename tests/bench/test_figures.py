"""Figures are measured part by part, whatever becomes of one, in the time that there is."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from importlib.util import find_spec
from math import inf
from pathlib import Path
from typing import Any

import pytest
import typer

from antiphon.cli.main import app
from antiphon_bench.commands.app import app as bench
from tests.bench import figures
from tests.bench.figure_parts import TESTS, all_parts
from tests.bench.measured_part import LOAD_S, Options, Part, chosen
from tests.bench.part_process import ROOT, run_commands
from tests.servers import wait_until

APPS = {"antiphon": app, "antiphon_bench": bench}
LONG_S = 1000.0


def options(folder: Path, **more: Any) -> Options:
    return Options(out=folder / "out", random_dir=folder / "random", **more)


def part(name: str, script: str, expected_s: float = 30.0, **more: Any) -> Part:
    return Part(name, "group", (("sh", "-c", script),), expected_s, **more)


def measured(parts: Iterable[Part], folder: Path, budget_s: float = inf) -> dict[str, str]:
    given = options(folder)
    given.out.mkdir(exist_ok=True)
    results = figures.measure([*parts], given, figures.Budget(budget_s))
    return {each.part: each.status for each in results}


def summary(folder: Path) -> dict[str, Any]:
    parts: dict[str, Any] = json.loads((folder / "out" / "figures.json").read_text())["parts"]
    return parts


def is_running(pid: int) -> bool:
    """Return whether a process runs; one that has ended may still wait for its parent."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def pids_in(log: Path) -> list[int]:
    return [int(each) for each in re.findall(r"^pid (\d+)$", log.read_text(), re.MULTILINE)]


def test_all_tests_of_a_gpu_are_among_the_parts() -> None:
    told = re.findall(r"\btests/[\w./]+", (ROOT / "scripts" / "test-gpu").read_text())
    assert sorted(told) == sorted(each for folders in TESTS.values() for each in folders)
    assert all((ROOT / each).exists() for each in told)


@pytest.mark.parametrize("is_tiny", [False, True])
def test_commands_are_such_that_are_there(is_tiny: bool, tmp_path: Path) -> None:
    commands = [
        each
        for part in all_parts(options(tmp_path, is_tiny=is_tiny, rate_s=5))
        for each in part.commands
    ]
    for python, m, module, *arguments in commands:
        assert (python, m) == (sys.executable, "-m")
        assert find_spec(module) is not None
        if module in APPS:
            command: Any = typer.main.get_command(APPS[module])
            command.make_context("antiphon", arguments)  # refuses what it does not know
            while arguments and arguments[0] in getattr(command, "commands", {}):
                command = command.commands[arguments.pop(0)]
            command.make_context("antiphon", [*arguments])
    assert len(commands) > 15


def test_parts_have_names_of_their_own_and_come_as_they_are_asked_for(tmp_path: Path) -> None:
    parts = all_parts(options(tmp_path))
    assert len({each.name for each in parts}) == len(parts)
    assert chosen(parts, None) == parts
    names = [each.name for each in chosen(parts, "rate, peers,http,rate,chat")]
    assert names == ["rate", "chat", "transformers", "voxcpm", "http", "http-front-ends"]
    with pytest.raises(ValueError, match=r"no part 'nothing'; there are tests, .*chat"):
        chosen(parts, "http,nothing")


def test_a_part_that_fails_does_not_stop_others_and_leaves_its_log(tmp_path: Path) -> None:
    failing = Part("bad", "group", (("sh", "-c", "echo so far; exit 3"), ("echo", "never")), 30)
    missing = Part("missing", "group", (("no such program",),), 30)
    assert measured([failing, missing, part("good", "echo fine")], tmp_path) == {
        "bad": "failed",
        "missing": "failed",
        "good": "ok",
    }
    log = (tmp_path / "out" / "bad.log").read_text()
    assert "so far\n" in log
    assert "never" not in log
    assert summary(tmp_path)["bad"]["exit_status"] == 3
    assert "fine\n" in (tmp_path / "out" / "good.log").read_text()
    assert {each.name for each in (tmp_path / "out").iterdir()} == {
        *("bad.log", "missing.log", "good.log", "figures.json")
    }


def test_no_part_is_begun_that_would_not_be_done(tmp_path: Path) -> None:
    parts = [part("long", "true", 2 * LONG_S), part("short", "true", 1.0)]
    assert measured(parts, tmp_path, LONG_S) == {"long": "no time", "short": "ok"}
    assert not (tmp_path / "out" / "long.log").exists()
    assert summary(tmp_path)["long"]["exit_status"] is None


def test_a_part_without_its_packages_is_left_out(tmp_path: Path) -> None:
    parts = [part("a", "true", needs=("json", "no_such_package")), part("b", "true")]
    assert measured(parts, tmp_path) == {"a": "skipped", "b": "ok"}
    assert summary(tmp_path)["a"]["why"] == "needs no_such_package"


def test_a_part_without_its_gpus_is_left_out(tmp_path: Path) -> None:
    assert measured([part("a", "true", num_gpus=1000), part("b", "true")], tmp_path) == {
        "a": "skipped",
        "b": "ok",
    }
    assert summary(tmp_path)["a"]["why"] == "needs 1000 GPUs"


def test_what_takes_too_long_is_killed_with_all_that_it_has_started(tmp_path: Path) -> None:
    stubborn = "trap '' INT; (trap '' INT; sleep 1000) & echo pid $!; echo pid $$; sleep 1000"
    log = tmp_path / "log"
    for limit_s in (0.2, 2, 20):  # as long as this machine needs to begin
        ended = run_commands([("sh", "-c", stubborn), ("echo", "never")], log, limit_s, 0.2)
        assert ended.status == "killed"
        assert ended.exit_status < 0
        pids = pids_in(log)
        wait_until(lambda: not any(map(is_running, pids_in(log))))  # a kill takes its time
        if len(pids) == 2:
            break
    assert len(pids) == 2
    assert "never" not in log.read_text()


def test_what_is_interrupted_may_still_say_what_it_has_found(tmp_path: Path) -> None:
    log = tmp_path / "log"
    waiting = "trap 'echo found; exit 2' INT; echo begun; while true; do sleep 0.01; done"
    for limit_s in (0.2, 2, 20):
        ended = run_commands([("sh", "-c", waiting)], log, limit_s, 60)
        if "begun" in log.read_text():
            break
    assert (ended.status, ended.exit_status) == ("killed", 2)
    assert "found\n" in log.read_text()


def test_nothing_that_a_part_has_started_outlives_it(tmp_path: Path) -> None:
    assert measured([part("leaves", "sleep 1000 & echo pid $!")], tmp_path) == {"leaves": "ok"}
    (pid,) = pids_in(tmp_path / "out" / "leaves.log")
    wait_until(lambda: not is_running(pid))


def test_the_summary_keeps_what_earlier_calls_have_measured(tmp_path: Path) -> None:
    measured(
        [part("a", "true"), part("b", "true"), part("c", "false", 2 * LONG_S)], tmp_path, LONG_S
    )
    measured(
        [part("a", "false"), part("b", "true", 2 * LONG_S), part("c", "true")], tmp_path, LONG_S
    )
    assert {name: each["status"] for name, each in summary(tmp_path).items()} == {
        "a": "failed",
        "b": "ok",
        "c": "ok",
    }


def test_the_first_part_of_a_model_takes_longer(tmp_path: Path) -> None:
    parts = [part(name, "true", 10.0, first_s=90.0, model="one") for name in ("a", "b", "c")]
    assert measured(parts, tmp_path, LONG_S) == {"a": "ok", "b": "ok", "c": "ok"}
    results = summary(tmp_path)
    assert [results[name]["expected_s"] for name in ("a", "b", "c")] == [100, 10, 10]


@pytest.mark.parametrize(
    ("left_s", "load_s", "expected_s"),
    [(50, 60, 110), (110, 60, 110), (400, 350, 400), (inf, 600, 650)],
)
def test_an_open_load_goes_on_as_long_as_there_is_time(
    left_s: float, load_s: int, expected_s: float
) -> None:
    load = part("rate", f"echo {LOAD_S}", 110.0, is_elastic=True).beginning((), left_s)
    assert load.commands == (("sh", "-c", f"echo {load_s}"),)
    assert load.expected_s == expected_s


def test_what_comes_later_keeps_its_time(tmp_path: Path) -> None:
    load = part("rate", f"echo for {LOAD_S} s", 110.0, is_elastic=True)
    parts = [load, part("later", "true", 300.0), part("left out", "true", 300.0, needs=("nobody",))]
    assert measured(parts, tmp_path, LONG_S - 300)["later"] == "ok"
    (load_s,) = re.findall(r"^for (\d+) s$", (tmp_path / "out" / "rate.log").read_text(), re.M)
    assert 60 < int(load_s) < 350


def test_whoever_ends_it_ends_the_part_that_runs(tmp_path: Path) -> None:
    script = """
import sys
from tests.bench import figures
from tests.bench.measured_part import Part
command = ("sh", "-c", "echo pid $$; sleep 1000")
figures.all_parts = lambda options: [Part("a", "a", (command,), 9e9)]
figures.main(["--out", sys.argv[1]])
"""
    log = tmp_path / "a.log"
    path = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'bench'}"}
    with subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], env=path) as process:
        wait_until(lambda: log.exists() and pids_in(log) != [])
        process.terminate()
    assert process.returncode == 143
    wait_until(lambda: not is_running(pids_in(log)[0]))  # whoever adopts it reaps it


@pytest.mark.slow  # a process that measures a model
def test_a_model_is_measured_from_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    tiny = ["--tiny", "--device", "cpu", "--out", str(out)]
    figures.main([*tiny, "--only", "chat"])
    report = json.loads((out / "chat.json").read_text())
    assert report["model"]["source"] == "random tiny thinker"
    assert [each["concurrency"] for each in report["results"]]
    assert summary(tmp_path)["chat"]["status"] == "ok"
    told = capsys.readouterr().out
    assert "tokens / s" in told
    assert re.search(r"^chat: ok, [\d.]+ s of 160$", told, re.MULTILINE)
    figures.main([*tiny, "--list", "--only", "chat"])
    assert "chat (peers), 160 s" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="no part 'nothing'"):
        figures.main([*tiny, "--only", "nothing"])
