"""The documentation of this version as pages, made of its Markdown when they are first read."""

import re
from functools import cache
from html import escape
from importlib.resources import files
from importlib.resources.abc import Traversable
from itertools import pairwise
from pathlib import Path
from posixpath import dirname, join, normpath

from markdown_it import MarkdownIt
from markdown_it.token import Token

START = "README.md"
_ROOT = (START, "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
_OF_THE_SITE = ("index.md", "listening.md")
"""Pages of ``docs/`` that scripts complete when they build the site."""
_PAGE = files("antiphon.web").joinpath("guide.html").read_text(encoding="utf-8")
# What may be wider than the screen is scrolled by keys, too.
_TABLE, _CODE = '<div class="wide" tabindex="0"><table>', '<pre tabindex="0">'


@cache
def guides() -> dict[str, Traversable]:
    """Return the files of the documentation by their paths in a checkout.

    A wheel carries them; elsewhere they are those of the checkout that this code belongs to.
    """
    carried = files("antiphon.web").joinpath("guides")
    root = carried if carried.is_dir() else Path(__file__).parents[2]
    pages = {name: root.joinpath(name) for name in _ROOT}
    folder = root.joinpath("docs")
    if folder.is_dir():
        listed = (each for each in folder.iterdir() if each.name.endswith(".md"))
        pages |= {f"docs/{each.name}": each for each in listed if each.name not in _OF_THE_SITE}
    return {name: file for name, file in sorted(pages.items()) if file.is_file()}


@cache
def guide_page(name: str) -> bytes:
    """Return a guide as HTML; takes some 50 ms of CPU for the longest."""
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = markdown.parse(guides()[name].read_text(encoding="utf-8"))
    title, taken = "", dict[str, int]()
    for heading, inline in pairwise(tokens):
        if heading.type == "heading_open":
            title = title or _plain(inline)
            heading.attrs["id"] = _anchor(_plain(inline), taken)
        elif heading.type == "inline":
            _keep_links_within(name, heading)
    content = markdown.renderer.render(tokens, markdown.options, {})
    content = content.replace("<table>", _TABLE).replace("</table>", "</table></div>")
    content = content.replace("<pre>", _CODE)
    top = "../" * (name.count("/") + 1)
    title = title if name == START else f"{title} · Antiphon"
    return _PAGE.format(title=escape(title), top=top, content=content).encode()


def _plain(inline: Token) -> str:
    return "".join(each.content for each in inline.children or ())


def _anchor(text: str, taken: dict[str, int]) -> str:
    """Return the anchor that forges give a heading."""
    name = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
    taken[name] = taken.get(name, -1) + 1
    return f"{name}-{taken[name]}" if taken[name] else name


def _keep_links_within(page: str, inline: Token) -> None:
    """Make plain text of links to files that only a checkout has."""
    is_kept = True
    for token in inline.children or ():
        if token.type == "link_open":
            target = str(token.attrs["href"]).partition("#")[0]
            path = normpath(join(dirname(page), target))
            is_kept = not target or ":" in target or path in guides()
        if token.type in ("link_open", "link_close") and not is_kept:
            token.type, token.nesting = "text", 0
