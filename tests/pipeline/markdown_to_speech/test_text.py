"""What is written for the eye is said as one would read it aloud, however it arrives."""

import random
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from antiphon.config.chat import SpeakableSettings
from antiphon.pipeline.markdown_to_speech.text import SpeakableText

MARKS = [
    *("*", "**", "_", "`", "```", "~~~", "~~", "#", "## ", " ", "\n", "\n\n", "- ", "1. ", "3. "),
    *("|", "|--|", "[", "]", "(", ")", "![", "[^", "]:", "<", ">", "&", "&amp;", "<br>", "<!--"),
    *("-->", "http://a.b", "https:", "www.", "h", "word", "two words", "7", ".", "!", "=", "---"),
    *("😀", "\u200d", "👍🏽", "🇩🇪", "\\", "- [ ] ", "ü", "日本", "\t"),
]
TEXTS = st.lists(st.sampled_from(MARKS), max_size=25).map("".join)
SETTINGS = st.builds(
    SpeakableSettings,
    code_blocks=st.sampled_from(["say", "skip"]),
    tables=st.sampled_from(["say", "skip"]),
    urls=st.sampled_from(["host", "say", "skip"]),
    emoji=st.sampled_from(["say", "skip"]),
)


def said(pieces: Iterable[str], options: SpeakableSettings | None = None) -> str:
    speakable = SpeakableText(options)
    return "".join([*map(speakable.push, pieces), speakable.flush()])


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        ("# The *end*\nIt is.", "The end.\nIt is."),
        ("Title\n===\nText", "Title\n\nText"),
        ("## Closed ##\n", "Closed.\n"),
        ("#hashtag and C# and 5 # 3", "#hashtag and C# and 5 # 3"),
        ("**Bold**, _both_ and ***all***, ~~no~~.", "Bold, both and all, no."),
        ("3*4, 2 * 5, snake_case, __init__", "3*4, 2 * 5, snake case, init"),
        ("- milk\n- [x] eggs!\n* tea", "milk.\neggs!\ntea."),
        ("1. One\n2) Two\n   - Three", "1: One.\n2: Two.\nThree."),
        ("It was\n1984. A year", "It was\n1984. A year"),
        ("-5 degrees, 3.5 more", "-5 degrees, 3.5 more"),
        ("> quoted\n> twice", "quoted\ntwice"),
        ("One\n\n---\n\nTwo", "One\n\nTwo"),
        ("| a | b |\n|---|:-:|\n| 1 |  |", "a, b.\n\n1."),
        ("a | b\n--|--\n1 | 2", "a, b\n\n1, 2"),
        ("x|y or a || b", "x|y or a || b"),
        ("So:\n```python\nx = 1\n```\nDone.", "So:\n\nDone."),
        ("~~~~\n~~~\n~~~~\nDone.", "Done."),
        ("```\nnever closed", ""),
        ("Use `the_name` and ``a ` b``.", "Use the name and a ` b."),
        ("An open `mark\nand more", "An open mark\nand more"),
        ("See [the *page*](http://x.y/z_(q) 'T') now.", "See the page now."),
        ("See [a][1] and [2] and [^3].", "See a and [2] and."),
        ("[1]: http://x.y\nText", "\nText".strip()),
        ("[^1]: Note", "Note"),
        ("Wait [pause:1s] here", "Wait [pause:1s] here"),
        ("![a cat](cat.png) sits", "a cat sits"),
        ("[![badge](b.svg)](http://x.y) it", "badge it"),
        ("At https://www.example.com/a?b=c, or <http://q.io/x>.", "At example.com, or q.io."),
        ("www.example.com! how, who, with", "example.com! how, who, with"),
        ("R&D &amp; AT&amp;T &#65;&nope", "R&D & AT&T A&nope"),
        ("a<br>b <b>c</b> <!-- no --> 1 < 2 <", "a b c 1 < 2 <"),
        (r"\*not\* \# \\", r"*not* # \ ".strip()),
        ("Great 😀. A 👨‍👩‍👧 1️⃣ 🇩🇪 © ™", "Great. A 1 © ™"),
        ("At http://user:word@host.org/x.", "At host.org."),
        ("~5 minutes, a ~ b", "~5 minutes, a ~ b"),
        ("####### seven", "####### seven"),
        (f"{'[' * 8}a{']' * 8}(b) c", f"{'[' * 7}a{']' * 7} c"),
        (f"{'[' * 9}a{']' * 9}(b) c", f"{'[' * 9}a{']' * 9}(b) c"),
        ("# 見出し\n本文。", "見出し。\n本文。"),
        ('- "quoted."\n- (bracket)', '"quoted."\n(bracket).'),
    ],
)
def test_marks_are_not_said(written: str, wanted: str) -> None:
    assert said([written]) == wanted
    assert said(written) == wanted, "letter by letter"


@pytest.mark.parametrize(
    ("options", "written", "wanted"),
    [
        ({"markdown": "as_written"}, "# **a** 😀", "# **a** 😀"),
        ({"code_blocks": "say"}, "```c\nx = *y;\n```\n.", "\nx = *y;\n\n.".strip("\n")),
        ({"tables": "skip"}, "A\n| b |\n|--|\n| c |\nD", "A\n\nD"),
        ({"urls": "skip"}, "At https://x.y/z.", "At."),
        ({"urls": "say"}, "At https://x.y/z.", "At https://x.y/z."),
        ({"emoji": "say"}, "I ❤️ you 👍🏽!", "I heavy black heart you thumbs up sign!"),
    ],
)
def test_settings_say_otherwise(options: Any, written: str, wanted: str) -> None:
    assert said([written], SpeakableSettings(**options)) == wanted


@settings(max_examples=150, deadline=None)
@given(TEXTS, SETTINGS, st.integers(0, 2**32))
def test_the_same_is_said_however_the_text_is_cut(
    text: str, options: SpeakableSettings, seed: int
) -> None:
    draw = random.Random(seed)
    cuts = sorted(draw.choices(range(len(text) + 1), k=draw.randint(0, 8)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert said([text], options) == said(text, options) == said(pieces, options)


def test_long_things_without_an_end_are_the_same_however_they_are_cut() -> None:
    long = "x" * 600
    marks = ["`", "[", "<a", "<!--", "https://", "```", "![", "|", "&", "[^", "www."]
    for mark in (*marks, "-" * 600):
        text = f"{mark}{long * 4} *a* `b` ]({long}) --> `"
        assert said([text]) == said(text)


@given(st.lists(st.from_regex(r"[A-Za-zäß']{1,12}[,;.?]?", fullmatch=True), min_size=1))
@settings(max_examples=50, deadline=None)
def test_plain_words_are_said_as_they_are_and_at_once(words: list[str]) -> None:
    text = " ".join(words)
    speakable = SpeakableText()
    done = ""
    for number, letter in enumerate(text):
        done += speakable.push(letter)
        word_begin = text.rfind(" ", 0, number + 1)
        assert len(done) >= min(word_begin, number), "words before this one are certain"
    assert done + speakable.flush() == text


def _words(tokens: list[Token] | None) -> Iterable[str]:
    for token in tokens or ():
        if token.type in ("text", "code_inline", "text_special"):
            yield token.content
        elif token.type in ("softbreak", "hardbreak", "paragraph_close", "heading_close"):
            yield " "
        yield from _words(token.children)


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_a_parser_of_whole_documents_finds_the_same_words(data: Any) -> None:
    """Of documents as models write them; where the two differ on purpose is no part of these."""
    word = st.sampled_from(["one", "two", "three", "House", "who", "why"])
    inline = st.one_of(
        word,
        word.map("**{}**".format),
        word.map("*{}*".format),
        word.map("`{}`".format),
        word.map("[{}](http://x.y/z)".format),
        word.map("***{}***".format),
    )
    line = st.lists(inline, min_size=1, max_size=5).map(" ".join)
    block = st.one_of(
        line,
        line.map("## {}".format),
        line.map("- {}".format),
        line.map("> {}".format),
        line.map("1. {}".format),
        line.map("```\n{}\n```".format),
        st.just("---"),
    )
    text = "\n\n".join(data.draw(st.lists(block, max_size=6)))
    theirs = " ".join("".join(_words(MarkdownIt().parse(text))).split())
    ours = said([text]).replace(".", "").replace("1: ", "")
    assert " ".join(ours.split()) == theirs


@pytest.mark.parametrize(
    "mark", ["`", "[", "[^", "![", "<a", "<!--", "https://", "www.", "&", "|", "*"]
)
def test_what_has_no_end_is_not_held_for_long(mark: str) -> None:
    speakable = SpeakableText()
    said_at_once = speakable.push(mark + "x" * 2400)
    assert len(said_at_once) >= 2400 - 2000, "a beginning of text is said before the end is known"
