"""Prompts are cleaned as diffusers cleans them, with ftfy and without it."""

import sys
from types import SimpleNamespace

import pytest

from antiphon.models.wan_video import prompt_text

TEXTS = (
    "a cat",
    "  two\t\n spaces \u3000 here ",
    "&lt;b&gt; &amp;amp;amp; &quot;quoted&quot;",
    "\x1f separators \x1c of files",
    "",
)


@pytest.mark.parametrize("text", TEXTS)
def test_cleaning_is_that_of_diffusers(text: str) -> None:
    from diffusers.pipelines.wan.pipeline_wan import prompt_clean

    assert prompt_text.clean_prompt(text) == prompt_clean(text)


def test_ftfy_is_used_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt_text, "_fix", None)
    monkeypatch.setattr(prompt_text, "find_spec", lambda name: name)
    fake = SimpleNamespace(fix_text=lambda text: text.replace("\u201c", '"'))
    monkeypatch.setitem(sys.modules, "ftfy", fake)
    assert prompt_text.clean_prompt(" \u201ccat ") == '"cat'


def test_nothing_else_changes_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt_text, "_fix", None)
    monkeypatch.setattr(prompt_text, "find_spec", lambda name: None)
    assert prompt_text.clean_prompt(" \u201ccat &amp; dog\u201d ") == "\u201ccat & dog\u201d"
