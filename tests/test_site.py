"""The pages are a site too: each is reached, no link leads nowhere, the reference is complete."""

import json
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from antiphon.api.app import create_app
from antiphon.api.schemas.field_rules import field_classes
from antiphon.api.schemas.speech import SpeechBody
from antiphon.config import Settings
from antiphon.families.registry import FAMILIES

ROOT = Path(__file__).parents[1]
DEADLINE_S = 240


def script(name: str) -> ModuleType:
    spec = spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


hooks = script("site_hooks")


@pytest.mark.parametrize(
    ("target", "leads_to"),
    [
        ("../README.md", "overview.md"),
        ("../SECURITY.md", "SECURITY.md"),
        ("../examples/offline.py", "examples/offline.py"),
        ("performance/", "performance.md"),
        ("performance/one.json", "performance/one.json"),
        ("api.md", "api.md"),
        ("https://example.org/", "https://example.org/"),
    ],
)
def test_links_of_docs_lead_into_the_site(target: str, leads_to: str) -> None:
    assert hooks.on_page_markdown(f"[a]({target})") == f"[a]({leads_to})"
    assert hooks.on_page_markdown(f"[a]({target}#part)") == f"[a]({leads_to}#part)"


def test_links_of_the_root_lead_into_the_site() -> None:
    text = "[a](docs/api.md#errors) [b](docs/) [c](README.md) [d](#here)"
    assert hooks.from_root("ARCHITECTURE.md", text) == (
        "[a](api.md#errors) [b](index.md) [c](overview.md) [d](#here)"
    )


def test_pages_that_the_navigation_does_not_name_are_models(tmp_path: Path) -> None:
    for name in ("b.md", "a.md", "told.md"):
        (tmp_path / name).touch()
    nav: list[Any] = [{"Told": [{"One": "told.md"}]}, {"Models": []}]
    config = hooks.on_config(SimpleNamespace(docs_dir=str(tmp_path), nav=nav))
    assert config.nav[1] == {"Models": ["a.md", "b.md"]}


def test_files_that_pages_link_to_come_along(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("[a](../examples/offline.py) [b](../README.md) [c](../none)")
    assert hooks.linked_files(tmp_path) == {"examples/offline.py"}


def test_contributors_see_how_large_families_are() -> None:
    text = hooks.from_root("CONTRIBUTING.md", (ROOT / "CONTRIBUTING.md").read_text("utf-8"))
    assert set(re.findall(r"^\| (\w+) \| .+ \| \d+ \| \d+ \|$", text, re.MULTILINE)) == {*FAMILIES}


def test_the_reference_has_every_operation_and_field() -> None:
    openapi = create_app(Settings()).openapi()
    page = script("api_reference").reference(openapi)
    told = re.findall(r"^### `(\w+) (\S+)`$", page, re.MULTILINE)
    assert sorted(told) == sorted(
        (method.upper(), path) for path, methods in openapi["paths"].items() for method in methods
    )
    speech = page.split("### `POST /v1/audio/speech`")[1].split("### ")[0]
    served = {name for name, kind in field_classes(SpeechBody).items() if kind == "served"}
    assert set(re.findall(r"^\| `(\w+)`", speech, re.MULTILINE)) >= served & {
        *SpeechBody.model_fields
    }
    for row in re.findall(r"^\|.*\|$", page, re.MULTILINE):
        assert len(re.split(r"(?<!\\)\|", row)) in (6,), row


def test_the_front_page_begins_as_the_readme_does() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    front = hooks.on_page_markdown(
        (ROOT / "docs" / "index.md").read_text("utf-8").partition("<!-- voice")[0]
    )
    parts = {name: hooks.readme_part(name) for name in ("what", "start", "request", "why")}
    assert all(part in readme for part in parts.values())
    assert parts["what"] in front
    assert parts["start"].startswith("scripts/serve")
    assert "curl " in parts["request"]
    assert parts["why"].count("\n- **") >= 3


def test_samples_are_listed_by_voice_with_what_they_read() -> None:
    voices = script("voice_samples")
    made = [voices.Sample("m", voice, "Greeting", "Hello.", b"") for voice in ("a", "b")]
    listed = voices.players(made, "folder/")
    assert re.findall(r"^## (.+)$", listed, re.MULTILINE) == ["m: a", "m: b"]
    assert listed.count("**Greeting.** Hello.") == 2
    assert 'src="folder/m-b-greeting.mp3"' in listed
    assert voices.shipped_models() == ["hibari"]


@pytest.mark.slow  # builds the whole site
@pytest.mark.skipif(find_spec("mkdocs") is None, reason="needs the extra 'docs'")
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    command = (sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path))
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    assert done.returncode == 0, done.stderr
    pages = {path.name for path in tmp_path.glob("*.html")}
    assert pages >= {f"{path.stem}.html" for path in (ROOT / "docs").glob("*.md")}
    assert pages >= {"index.html", "reference.html", "CONTRIBUTING.html", "ARCHITECTURE.html"}
    index = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert 'href="install.html"' in index
    for text in (index, (tmp_path / "listening.html").read_text(encoding="utf-8")):
        assert "<!--" not in re.sub(r"<!--\[if.*?-->", "", text)
        players = re.findall(r'<audio [^>]*src="([^"]+)"', text)
        assert players
        assert all((tmp_path / name).read_bytes()[:2] in (b"ID", b"\xff\xf3") for name in players)
    fetched = re.findall(r'(?:<script[^>]* src|<link rel="stylesheet"[^>]* href)="([^"]+)"', index)
    assert fetched
    assert not [address for address in fetched if "//" in address]
    assert (tmp_path / "examples" / "offline.py").exists()
    searched = json.loads((tmp_path / "search" / "search_index.json").read_text("utf-8"))["docs"]
    found = {entry["location"].partition("#")[0] for entry in searched}
    assert "api.html" in found
    assert not [name for name in found if name.startswith(("CHANGELOG", "history/"))]
    shutil.rmtree(tmp_path)
