"""``antiphon dev new-family``: what it writes speaks at once, and it overwrites nothing."""

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import antiphon
from antiphon.cli.new_family import FamilyKind, name_problem, scaffold, with_line
from antiphon.errors import SettingsError
from tests.cli.conftest import Run

ROOT = Path(antiphon.__file__).parents[1]
DEADLINE_S = 300
SHORT_TEXTS = "\nTEXTS = TEXTS[:6]\n"
"""Families of random numbers speak for half a minute of the others, a dozen times over."""
REGISTRY = """FAMILIES: dict[str, str] = {
    "first": "antiphon.families.first:FAMILY",
    "third": "antiphon.families.third:FAMILY",
}
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout of a registry with two families, and of one more file."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)  # length of lines
    folder = tmp_path / "antiphon" / "families"
    folder.mkdir(parents=True)
    (folder / "registry.py").write_text(REGISTRY, encoding="utf-8")
    (folder / "hub.py").write_text('"""Not of zither."""\nHOST = "the hub of flutes"\n')
    (folder / "first").mkdir()
    (tmp_path / "tests" / "families").mkdir(parents=True)
    return tmp_path


@pytest.mark.parametrize("kind", FamilyKind)
def test_a_family_is_written_with_tests_and_a_line(kind: FamilyKind, checkout: Path) -> None:
    written = scaffold("my_tts", kind, checkout)
    *modules, registry = written
    assert {path.parent.name for path in modules} == {"my_tts"}
    for path in modules:
        text = path.read_text(encoding="utf-8")
        assert "$" not in text
        if path.suffix == ".py":
            compile(text, path, "exec")
    tested = {path.name for path in modules if "tests" in path.relative_to(checkout).parts}
    assert {path.name for path in modules} >= {name.removeprefix("test_") for name in tested}
    assert len(tested) >= 1
    assert '"my_tts": "antiphon.families.my_tts:FAMILY"' in registry.read_text(encoding="utf-8")
    with pytest.raises(SettingsError, match="is taken"):
        scaffold("my_tts", kind, checkout)


@pytest.mark.parametrize("kind", FamilyKind)
def test_the_longest_name_makes_no_line_too_long(kind: FamilyKind, checkout: Path) -> None:
    *modules, _ = scaffold("a" * 24, kind, checkout)
    for path in modules:
        if path.suffix == ".py":
            lines = path.read_text(encoding="utf-8").splitlines()
            # Without ruff nothing breaks the lines of code.
            checked = lines if find_spec("ruff") is not None else lines[:1]
            assert max(map(len, checked)) <= 100, path


def test_a_family_in_pytorch_is_small_and_explained(checkout: Path) -> None:
    *modules, _ = scaffold("my_tts", FamilyKind.TORCH, checkout)
    assert 5 <= len(modules) <= 7
    texts = [path.read_text(encoding="utf-8") for path in modules]
    assert sum(bool(line.strip()) for text in texts for line in text.splitlines()) <= 400
    explained = next(
        text for path, text in zip(modules, texts, strict=True) if path.stem == "README"
    )
    for method in ("embed_prompts", "next_states", "forward", "sample", "commit"):
        assert method in explained.lower()
        assert any(f"def {method}(" in text for text in texts)


@pytest.mark.parametrize("name", ["aa", "second", "zither"])
def test_lines_stay_in_order(name: str) -> None:
    lines = with_line(REGISTRY, name).splitlines()
    assert lines[1:-1] == sorted(lines[1:-1])
    assert len(lines) == 5


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "no name"),
        ("My_TTS", "no name"),
        ("9tts", "no name"),
        ("a__b", "no name"),
        ("../tts", "no name"),
        ("class", "no name"),
        ("a" * 25, "too long"),
        ("first", "is taken"),
        ("hub", "is taken"),
        ("flute", "means something else in antiphon/families/hub.py"),
    ],
)
def test_what_is_no_new_name_is_refused_and_nothing_written(
    name: str, problem: str, checkout: Path
) -> None:
    before = sorted(checkout.rglob("*"))
    with pytest.raises(SettingsError, match=problem):
        scaffold(name, FamilyKind.SIDE, checkout)
    assert sorted(checkout.rglob("*")) == before


def test_what_docstrings_say_takes_no_name(checkout: Path) -> None:
    assert name_problem("zither", checkout) is None


def test_without_a_checkout_it_says_so(run: Run, tmp_path: Path) -> None:
    done = run("dev", "new-family", "my_tts", "--kind", "side", "--root", str(tmp_path))
    assert done.exit_code == 1
    assert "no checkout" in done.stderr


@pytest.mark.slow  # four families in a copy: their tests, conformance, and servers of their own
def test_each_kind_passes_its_checks_in_a_copy(run: Run, tmp_path: Path) -> None:
    unfinished = shutil.ignore_patterns("*.pyc.*", ".mypy_cache")  # of modules being compiled
    for folder in ("antiphon", "bench", "tests"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=unfinished)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    with (tmp_path / "antiphon" / "family_check" / "texts.py").open("a", encoding="utf-8") as texts:
        texts.write(SHORT_TEXTS)
    names = {kind: f"my_{kind.replace('-', '_')}" for kind in FamilyKind}
    for kind, name in names.items():
        run("dev", "new-family", name, "--kind", kind, "--root", str(tmp_path))
        checked = check_family(tmp_path, name)
        assert checked.returncode == 0, checked.stdout + checked.stderr
        findings = json.loads(checked.stdout)
        assert len(findings) == 15
        assert all(each["is_met"] or each["is_speed"] for each in findings)
    tests = [*(f"tests/families/{name}" for name in names.values())]
    tests += ["tests/families/test_conformance.py", "tests/test_architecture.py"]
    chosen = " or ".join(["names_of_their_own", "mirror", *names.values()])
    options = ("-p", "no:cacheprovider")
    done = run_in(tmp_path, "pytest", *tests, "-k", chosen, *options)
    assert " failed" not in done.stdout
    if find_spec("ruff") is not None:
        run_in(tmp_path, "ruff", "check", "antiphon/families", "tests/families", "--no-cache")

    codec = tmp_path / "antiphon" / "families" / names[FamilyKind.TWO_STAGE] / "codec.py"
    text = codec.read_text(encoding="utf-8")
    forgets = text.replace(
        "        return np.conc", "        self.reset(state, slot)\n        return np.conc"
    )
    assert forgets != text
    codec.write_text(forgets, encoding="utf-8")
    broken = check_family(tmp_path, names[FamilyKind.TWO_STAGE])
    assert broken.returncode == 1
    failed = {each["check"] for each in json.loads(broken.stdout) if not each["is_met"]}
    assert "streaming equals whole" in failed


def check_family(checkout: Path, name: str) -> "subprocess.CompletedProcess[str]":
    return start_in(checkout, "antiphon", "dev", "check-family", name, "--allow-slow", "--json")


def run_in(checkout: Path, *command: str) -> "subprocess.CompletedProcess[str]":
    done = start_in(checkout, *command)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def start_in(checkout: Path, *command: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", *command],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": str(checkout)},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
