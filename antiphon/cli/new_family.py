"""``antiphon dev new-family``: a folder that speaks with random weights, its tests, its line."""

import ast
import keyword
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from string import Template
from typing import Annotated

import typer

from antiphon.errors import SettingsError

_PACKAGE = Path(__file__).parents[1]
_TEMPLATES = Path(__file__).parent / "family_templates"
_SUFFIX = ".template"
_LINE = re.compile(r'^    "(\w+)": "antiphon\.families\.\w+:FAMILY",\n', re.MULTILINE)
_MAX_NAME_LENGTH = 24
"""Longer ones would make lines of the templates too long."""


class FamilyKind(StrEnum):
    """Parts of a family's pipeline."""

    TWO_STAGE = "two-stage"
    GENERATOR = "generator"
    SIDE = "side"
    TORCH = "torch"


_FOLDERS = {
    FamilyKind.TWO_STAGE: ("staged", "two_stage"),
    FamilyKind.SIDE: ("staged", "side"),
    FamilyKind.GENERATOR: ("generator",),
    FamilyKind.TORCH: ("torch",),
}


def new_family(
    name: Annotated[
        str, typer.Argument(help="Of its folder: small letters, digits, _.", show_default=False)
    ],
    kind: Annotated[
        FamilyKind,
        typer.Option(
            help="'two-stage': frames of codes, then a codec. 'side': the same, and each step"
            " computes latents beside it. 'generator': the model owns its loop. 'torch': an"
            " autoregressive model and a codec in PyTorch, with CUDA graphs.",
            show_default=False,
        ),
    ],
    root: Annotated[
        Path | None,
        typer.Option(
            help="A checkout to write into.",
            file_okay=False,
            show_default="that of this package",
        ),
    ] = None,
) -> None:
    """Begin a family: a folder with random weights that speaks at once, tests, a registry line."""
    checkout = root or _PACKAGE.parent
    written = scaffold(name, kind, checkout)
    for path in written:
        typer.echo(f"Wrote {path.relative_to(checkout)}")
    typer.echo(
        "Now:\n"
        f"  antiphon dev check-family {name}\n"
        f"  scripts/test tests/families/{name} tests/families/test_conformance.py -k {name}\n"
        "then README.md's and CHANGELOG.md's lines, and CONTRIBUTING.md's steps."
    )


def scaffold(name: str, kind: FamilyKind, checkout: Path) -> list[Path]:
    """Write a family's folder, its tests and its line of the registry; return the paths.

    Raises:
        SettingsError: the name is none, or taken, or there is no checkout; nothing is written.
    """
    registry = checkout / "antiphon" / "families" / "registry.py"
    if not registry.exists() or not (checkout / "tests" / "families").is_dir():
        raise SettingsError(f"'{checkout}' is no checkout of Antiphon: --root names one.")
    if problem := name_problem(name, checkout):
        raise SettingsError(problem)
    values = {"name": name, "Name": "".join(part.title() for part in name.split("_"))}
    folders = {
        "package": registry.parent / name,
        "tests": checkout / "tests" / "families" / name,
    }
    written = []
    for part, folder in folders.items():
        folder.mkdir()
        for template in _templates(kind, part):
            path = folder / template.name.removesuffix(_SUFFIX)
            path.write_text(
                Template(template.read_text(encoding="utf-8")).substitute(values), encoding="utf-8"
            )
            written.append(path)
    _tidy([path for path in written if path.suffix == ".py"], checkout)
    registry.write_text(with_line(registry.read_text(encoding="utf-8"), name), encoding="utf-8")
    return [*written, registry]


def name_problem(name: str, checkout: Path) -> str | None:
    """Return why a family cannot be called so; ``None`` if it can."""
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name) or keyword.iskeyword(name):
        return (
            f"'{name}' is no name of a family: small letters, digits and single _, as in 'my_tts'."
        )
    if len(name) > _MAX_NAME_LENGTH:
        return f"'{name}' is too long: at most {_MAX_NAME_LENGTH} characters."
    folder = checkout / "antiphon" / "families"
    for taken in (folder / name, folder / f"{name}.py", checkout / "tests" / "families" / name):
        if taken.exists():
            return f"'{name}' is taken: there is {taken.relative_to(checkout)}."
    for path in sorted((checkout / "antiphon").rglob("*.py")):
        if name in _words(path):
            return (
                f"'{name}' means something else in {path.relative_to(checkout)}: a family's name"
                " stands nowhere outside its folder and the registry."
            )
    return None


def with_line(registry: str, name: str) -> str:
    """Return the registry's text with the line of a family, in the order of names."""
    lines = [*_LINE.finditer(registry)]
    after = [line for line in lines if line[1] < name]
    at = after[-1].end() if after else lines[0].start()
    return f'{registry[:at]}    "{name}": "antiphon.families.{name}:FAMILY",\n{registry[at:]}'


def _templates(kind: FamilyKind, part: str) -> Iterator[Path]:
    for folder in _FOLDERS[kind]:
        yield from sorted((_TEMPLATES / folder / part).glob(f"*{_SUFFIX}"))


def _words(path: Path) -> str:
    """Return the strings and names of a module, which a family's name may not be a part of."""
    text = path.read_text(encoding="utf-8")
    return "\n".join(_words_of(ast.parse(text))).lower()


def _words_of(tree: ast.Module) -> Iterator[str]:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
        elif isinstance(node, ast.Constant) and id(node) not in docstrings:
            yield str(node.value)


def _tidy(paths: Sequence[Path], checkout: Path) -> None:
    """Sort imports and break lines as the name wants it, if ruff is installed."""
    if find_spec("ruff") is None:
        return
    ruff = (sys.executable, "-m", "ruff")
    for command in (("check", "--select", "I", "--fix", "--quiet"), ("format", "--quiet")):
        subprocess.run((*ruff, *command, *map(str, paths)), cwd=checkout, check=True)
