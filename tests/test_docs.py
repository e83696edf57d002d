"""The documentation is complete and leads nowhere wrong: links, settings, fields, dependencies."""

import re
import tomllib
from pathlib import Path

import pytest
from pydantic import BaseModel

import antiphon
from antiphon.api.schemas.chat import ChatBody
from antiphon.api.schemas.field_rules import field_classes
from antiphon.api.schemas.images import ImageBody
from antiphon.api.schemas.speech import SpeechBody
from antiphon.config import Settings
from antiphon.errors import AntiphonError, ModelLoadError, SettingsError
from antiphon.families.registry import FAMILIES

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def page_name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", PAGES, ids=page_name)
def test_links_lead_somewhere(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    anchors = {re.sub(r"[^\w\- ]", "", each).strip().lower().replace(" ", "-") for each in headings}
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith("#"):
            assert target[1:] in anchors, target
        elif not target.startswith("https://"):
            assert (path.parent / target.partition("#")[0]).exists(), target


def test_reports_name_no_folder_of_the_machine_that_made_them() -> None:
    reports = sorted((ROOT / "docs").rglob("*.json"))
    assert reports
    named = {report.name: re.findall(r'[" =]/\w[^"]*', report.read_text()) for report in reports}
    assert {name: found for name, found in named.items() if found} == {}


def test_the_files_of_recipes_are_there() -> None:
    named = re.findall(r"`((?:antiphon|bench|docs|tests)/[\w./]+)`", page("CONTRIBUTING.md"))
    assert len(named) > 20
    assert not [path for path in named if not (ROOT / path).exists()]


def test_every_setting_is_explained() -> None:
    rows = re.findall(r"^\| `(\w+)` \| `(ANTIPHON_\w+)` \|", page("docs/settings.md"), re.MULTILINE)
    known = [
        (name, f"ANTIPHON_{section}_{name}".upper())
        for section, field in Settings.model_fields.items()
        for name in type(field.default).model_fields
    ]
    assert rows == known


def served(model: type[BaseModel]) -> set[str]:
    kinds = field_classes(model)
    return {name for name in model.model_fields if kinds.get(name) == "served"}


def test_every_field_of_a_speech_request_is_explained() -> None:
    section = page("docs/api.md").split("\n## ")[2]
    told = set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))
    assert told >= served(SpeechBody)


@pytest.mark.parametrize(
    ("file", "number", "body"), [("chat", 1, ChatBody), ("images", 2, ImageBody)]
)
def test_every_field_of_a_chat_or_image_is_explained(
    file: str, number: int, body: type[BaseModel]
) -> None:
    section = page(f"docs/{file}.md").split("\n## ")[number]
    rows = re.findall(r"^\| (`.+?) \|", section, re.MULTILINE)
    assert served(body) <= {name for row in rows for name in codes_of(row)} <= {*body.model_fields}


def test_every_error_of_a_request_is_in_the_table_of_codes() -> None:
    rows = re.findall(
        r"^\| (\d{3}) \| `(\w+)` \| (.+?) \| .+ \|$", page("docs/api.md"), re.MULTILINE
    )
    told = {(int(status), type, code) for status, type, codes in rows for code in codes_of(codes)}

    def below(kind: type[AntiphonError]) -> list[type[AntiphonError]]:
        return [kind, *(each for child in kind.__subclasses__() for each in below(child))]

    own = [kind for kind in below(AntiphonError) if kind.__module__ == AntiphonError.__module__]
    for kind in own:
        if kind not in (SettingsError, ModelLoadError):  # nobody asks before the start
            assert (kind.status, kind.type, kind.code) in told, kind.__name__
    code = "\n".join(path.read_text(encoding="utf-8") for path in ROOT.glob("antiphon/**/*.py"))
    received = set(re.findall(r"code=\"(\w+)\"", code)) - {"client_disconnected"}
    assert received <= {each for *_, each in told}


def codes_of(cell: str) -> list[str]:
    return re.findall(r"`(\w+)`", cell)


def test_every_dependency_is_justified() -> None:
    project = tomllib.loads(page("pyproject.toml"))["project"]
    required = sorted(re.split(r"[^\w-]", line)[0] for line in project["dependencies"])
    told = re.findall(r"^\| ([\w-]+) \| .+ \| .+ \|$", page("docs/dependencies.md"), re.MULTILINE)
    assert [name for name in told if name not in ("package", "---")] == required
    bench = tomllib.loads(page("bench/pyproject.toml"))["project"]
    assert bench["version"] == antiphon.__version__
    assert page("bench/LICENSE") == page("LICENSE")
    assert bench["dependencies"] == [f"antiphon=={antiphon.__version__}"]
    for extra in [*project["optional-dependencies"], *bench["optional-dependencies"]]:
        assert f"| `{extra}` |" in page("docs/dependencies.md")


def test_the_changelog_and_the_readme_know_the_version_and_the_families() -> None:
    assert antiphon.__version__ in page("CHANGELOG.md")
    for family in FAMILIES:
        assert family in page("README.md")
        assert family in page("CHANGELOG.md")


def test_the_tests_that_are_to_show_a_defence_exist() -> None:
    told = page("docs/security.md")
    files = set(re.findall(r"`(tests/[\w/]+\.py)`", told))
    assert len(files) > 10
    for name in files:
        assert (ROOT / name).exists(), name
    code = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py"))
    for name in re.findall(r"`(test_\w+)`", told):
        assert f"def {name}(" in code, name


def test_nobody_is_told_to_install_what_no_registry_has() -> None:
    code = [*(ROOT / "antiphon").rglob("*.py"), *(ROOT / "bench").rglob("*.py")]
    told = [*PAGES, *code, *(ROOT / "deploy").rglob("Dockerfile*")]
    for path in [*told, ROOT / "constraints.txt"]:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"""(?i)install ['"`]*antiphon\b(?![\w-]*\.whl|-VERSION)""", text), (
            path
        )
