"""The whole command line: quick to start, and one line for what a user did wrong."""

import re
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import antiphon
from antiphon.cli.main import app
from antiphon.errors import EngineError
from tests.cli.conftest import DEADLINE_S, Run

HEAVY = {"torch", "fastapi", "numpy", "onnxruntime", "av", "pydantic", "uvicorn"}


@pytest.mark.parametrize(
    "arguments",
    [
        ("-m", "antiphon", "--help"),
        ("-c", "import antiphon_bench.commands.app"),  # --help lists it where it is installed
        ("-c", "import antiphon"),
    ],
)
def test_starting_imports_nothing_heavy(arguments: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *arguments],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=True,
    )
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "antiphon.contracts.types" in imported
    assert not imported & HEAVY


def test_version(run: Run) -> None:
    assert run("--version").stdout == f"antiphon {antiphon.__version__}\n"


def test_alone_it_names_the_first_commands(run: Run) -> None:
    done = run()
    assert done.exit_code == 0
    assert all(command in done.stdout for command in ("antiphon say", "antiphon serve", "--help"))


def test_help_has_a_panel_for_each_topic(run: Run) -> None:
    shown = run("--help").stdout
    titles = re.findall(r"─ (\w[\w ]+) ─", shown)
    assert titles == [
        *("Options", "Serve and generate", "Models and voices", "Operation"),
        *("Several GPUs and hosts", "Development and measurement"),
    ]
    assert "─ Commands" not in shown, "each command has a topic"


def test_flags_of_the_server_have_panels(run: Run) -> None:
    titles = re.findall(r"─ (\w[\w ]+) ─", run("serve", "--help").stdout)
    assert titles[:4] == ["Arguments", "Options", "Model", "Address and access"]


@pytest.mark.parametrize("command", [(), ("serve",), ("voices", "list"), ("keys", "new")])
def test_switches_take_no_value(run: Run, command: tuple[str, ...]) -> None:
    assert "bool" not in run(*command, "--help").stdout


@pytest.mark.parametrize(
    ("words", "completed"),
    [("antiphon mod", "models"), ("antiphon models f", "fit"), ("antiphon say --mo", "--model")],
)
def test_names_are_completed(monkeypatch: pytest.MonkeyPatch, words: str, completed: str) -> None:
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(words.count(" ")))
    monkeypatch.setenv("_ANTIPHON_COMPLETE", "complete_bash")
    assert CliRunner().invoke(app, prog_name="antiphon").stdout.split() == [completed]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("say", "Hello.", "--model", "tooy"), "Did you mean 'toy'?"),
        (("voices", "--model", "tooy"), "Did you mean 'toy'?"),
        (("serve", "tooy"), "Did you mean 'toy'? Built in: hibari, toy"),
        (("serve", "toy", "--dtype", "float8"), "model.dtype"),
        (("serve", "toy", "--port", "65536"), "server.port"),
        (("serve", "toy", "--host", "256.256.256.256"), "Cannot listen on 256.256.256.256:8000"),
        (("config", "--config", "no-such.toml"), "no-such.toml"),
    ],
)
def test_a_users_mistake_is_told_in_one_line(
    run: Run, arguments: tuple[str, ...], message: str
) -> None:
    done = run(*arguments)
    assert done.exit_code == 1
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("antiphon: ")
    assert message in done.stderr


def test_an_unknown_setting_in_the_environment_is_told(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTIPHON_SERVER_PROT", "1")
    done = run("serve", "toy")
    assert done.exit_code == 1
    assert "Did you mean 'ANTIPHON_SERVER_PORT'?" in done.stderr


def test_an_unknown_flag_is_told(run: Run) -> None:
    done = run("serve", "--prot", "1")
    assert done.exit_code == 2
    assert "--port" in done.stderr


def test_a_fault_that_is_ours_keeps_its_traceback(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(name: str) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("antiphon.families.registry.family", broken)
    assert isinstance(run("models").exception, ZeroDivisionError)


def test_a_failure_of_the_model_is_told_in_one_line(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(name: str) -> None:
        raise EngineError("out of memory")

    monkeypatch.setattr("antiphon.families.registry.family", broken)
    assert run("models").stderr == "antiphon: out of memory\n"
