"""What makes a site of pages that lie where a forge wants them; mkdocs.yml names this file.

Pages of the project's root join those of ``docs/``; README.md becomes the overview. Links between
the two follow. The front page takes its first commands and reasons from README.md. The API
reference, the sizes of the families and listening samples are made when the site is built. Pages
that the navigation does not name stand under Models.
"""

import os
import re
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

ROOT = Path(__file__).parents[1]
ROOT_PAGES = ("README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
README_PAGE = "overview.md"
ICON = "antiphon/web/static/icon.svg"
SAMPLES = "listening"
NOT_FOUND_BY_SEARCH = ("CHANGELOG.md", "history/", "performance/")
REST = "Models"
_PARTS = {
    "what": r"^# Antiphon\n\n(.+?)\n\n",
    "start": r"^```bash\n(scripts/serve[^\n]+)$",
    "request": r"^(```bash\ncurl .+?^```)$",
    "why": r"^## Why Antiphon\n\n(.+?)\n\n",
}
_PART = re.compile(r"<!-- README: (\w+) -->")
_LINK = re.compile(r"(?<=\]\()([^)\s#]+)")
_ELSEWHERE = {
    "docs/": "index.md",
    "examples/": "clients.md",
    "LICENSE": "https://www.apache.org/licenses/LICENSE-2.0",
}
_SIZES_AFTER = "`antiphon dev families` counts"


def on_config(config: "MkDocsConfig") -> "MkDocsConfig":
    """Put the pages that the navigation does not name under Models."""
    if "MIKE_DOCS_VERSION" in os.environ:  # a version among others: pages show a list of them
        config.extra["version"] = {"provider": "mike"}
    assert config.nav is not None
    named = set(_targets(config.nav))
    for section in config.nav:
        if REST in section:
            section[REST] = [
                page.name
                for page in sorted(Path(config.docs_dir).glob("*.md"))
                if page.name not in named
            ]
    return config


def on_files(files: "Files", config: "MkDocsConfig") -> "Files":
    """Add the pages of the root, those that are generated, and files that pages link to."""
    from mkdocs.structure.files import File

    for name in ROOT_PAGES:
        text = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, site_name(name), content=from_root(name, text)))
    files.append(File.generated(config, "reference.md", content=_reference()))
    files.append(File.generated(config, "assets/icon.svg", abs_src_path=str(ROOT / ICON)))
    for sample in _samples():
        name = f"{SAMPLES}/{sample.name}"
        files.append(File.generated(config, name, content=sample.mp3))
    for name in sorted(linked_files(Path(config.docs_dir))):
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    return files


def linked_files(docs: Path) -> set[str]:
    """Return the files outside ``docs/`` that its pages link to, such as examples."""
    texts = [path.read_text(encoding="utf-8") for path in docs.glob("*.md")]
    links = {target for text in texts for target in _LINK.findall(text)}
    names = {target.removeprefix("../") for target in links if target.startswith("../")}
    return {name for name in names - {*ROOT_PAGES} if (ROOT / name).is_file()}


def on_page_markdown(markdown: str, page: Any = None, **_: Any) -> str:
    """Turn links that leave docs/ into links within the site; folders of docs/ link as files do."""
    if page is not None and page.file.src_uri.startswith(NOT_FOUND_BY_SEARCH):
        page.meta["search"] = {"exclude": True}
    if page is not None and "/" in page.file.src_uri:
        return markdown
    markdown = _PART.sub(lambda part: from_root("README.md", readme_part(part[1])), markdown)
    if "<!-- voice sample" in markdown:
        every, first = _players()
        markdown = markdown.replace("<!-- voice samples -->", every)
        markdown = markdown.replace("<!-- voice sample -->", first)
    return _LINK.sub(lambda link: from_docs(link[1]), markdown)


def site_name(name: str) -> str:
    """Return what a page of the root is called in the site."""
    return README_PAGE if name == "README.md" else name


def readme_part(name: str) -> str:
    """Return a part of README.md: its summary, first command, first request or reasons."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(_PARTS[name], text, re.MULTILINE | re.DOTALL)
    assert found is not None, f"README.md has no part '{name}'"
    return found[1]


def from_root(name: str, text: str) -> str:
    """Return a page of the root as if it lay in ``docs/``."""
    if name == "CONTRIBUTING.md":
        text = text.replace(_SIZES_AFTER, f"{_sizes()}\n\n{_SIZES_AFTER}", 1)
    return _LINK.sub(lambda link: _moved(link[1]), text)


def from_docs(target: str) -> str:
    """Return where a link of a page in ``docs/`` leads in the site."""
    if target.startswith("../"):
        return site_name(target.removeprefix("../"))
    # A folder of files is shown by forges; here its page stands for it.
    return f"{target.removesuffix('/')}.md" if re.fullmatch(r"[\w-]+/", target) else target


def _moved(target: str) -> str:
    if target in _ELSEWHERE:
        return _ELSEWHERE[target]
    return site_name(target) if target in ROOT_PAGES else target.removeprefix("docs/")


def _targets(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    children = nav.values() if isinstance(nav, dict) else nav
    return [target for child in children for target in _targets(child)]


@cache
def _samples() -> list[Any]:
    _find_scripts()
    from voice_samples import samples, shipped_models

    return list(samples(shipped_models()))


def _players() -> tuple[str, str]:
    """Return lists of all samples with players, and a player of the first."""
    _find_scripts()
    from voice_samples import players

    first = f"{SAMPLES}/{_samples()[0].name}"
    return players(_samples(), f"{SAMPLES}/"), f'<audio controls src="{first}"></audio>'


def _find_scripts() -> None:
    """Put our folder first; the program that builds the site does so with its own."""
    if sys.path[0] != str(ROOT / "scripts"):
        sys.path.insert(0, str(ROOT / "scripts"))


def _reference() -> str:
    from antiphon.api.app import create_app
    from antiphon.config import Settings

    _find_scripts()
    from api_reference import reference

    return reference(create_app(Settings()).openapi())


def _sizes() -> str:
    from antiphon.cli.family_lines import family_sizes

    rows = [
        f"| {each.name} | {', '.join(each.tasks)} | {each.files} | {each.lines} |"
        for each in family_sizes()
    ]
    return "\n".join(["| family | tasks | files | lines |", "| --- | --- | --- | --- |", *rows])
