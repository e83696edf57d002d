"""Prompts are cleaned as diffusers cleans them."""

import pytest

from antiphon.families.wan_video.prompt import clean_prompt

TEXTS = (
    "a cat",
    "  two\t\n spaces \u3000 here ",
    "&lt;b&gt; &amp;amp;amp; &quot;quoted&quot;",
    "\x1f separators \x1c of files",
    "\u201ccurly\u201d and sch\u00c3\u00b6n",
    "",
)


@pytest.mark.parametrize("text", TEXTS)
def test_cleaning_is_that_of_diffusers(text: str) -> None:
    from diffusers.pipelines.wan.pipeline_wan import prompt_clean

    assert clean_prompt(text) == prompt_clean(text)


def test_quotes_and_encodings_are_mended() -> None:
    assert clean_prompt(" \u201ccat &amp; dog\u201d ") == '"cat & dog"'
