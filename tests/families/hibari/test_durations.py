"""When hibari's words are spoken: each in its turn, where it can be heard."""

from itertools import pairwise

import numpy as np
import pytest

from antiphon.contracts.family import LoadContext
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import Samples, SpeechRequest, WordTime
from antiphon.families.hibari.generator import HibariGenerator
from antiphon.families.hibari.prompt import HibariPrompter

AUDIBLE = 0.01
MAX_GAP_S = 0.15
"""Between two words that no mark parts."""
TEXT = "Hello there, my friend! It cost $3.50 at the market. Isn't that well-known?"


@pytest.fixture(scope="module")
def prompter() -> HibariPrompter:
    return HibariPrompter(LoadContext())


@pytest.fixture(scope="module")
def generator() -> HibariGenerator:
    return HibariGenerator(LoadContext())


def prompt_of(prompter: HibariPrompter, text: str, *, told: bool = True) -> Prompt:
    request = SpeechRequest(text, word_timestamps=told)
    return prompter.build(request, prompter.capabilities.voices[0], 1)


def spoken(generator: HibariGenerator, prompt: Prompt) -> tuple[Samples, list[WordTime]]:
    chunks = list(generator.generate(prompt))
    words = [word for chunk in chunks for word in chunk.words]
    return np.concatenate([chunk.samples for chunk in chunks]), words


def test_words_come_in_order_and_can_be_heard(
    prompter: HibariPrompter, generator: HibariGenerator
) -> None:
    samples, words = spoken(generator, prompt_of(prompter, TEXT))
    assert [each.word.strip(".,!?") for each in words] == [
        *("Hello", "there", "my", "friend", "It", "cost", "$3.50", "at", "the", "market"),
        *("Isn't", "that", "well-known"),
    ]
    edges = [edge for each in words for edge in (each.start_s, each.end_s)]
    assert edges == sorted(edges)
    assert edges[-1] <= len(samples) / 24_000
    for each in words:
        heard = samples[int(each.start_s * 24_000) : int(each.end_s * 24_000)]
        assert np.abs(heard).max() > AUDIBLE, each


@pytest.mark.parametrize(
    "text",
    [
        "Use a name e.g. Ann Ames or Olaf St. Ives.",
        "The U.S. Army took approx. 8 aides a.k.a. agents to Dr. Ames.",
        "See fig. 8 vs. no. 11 etc. in J. S. Adams i.e. once.",
    ],
)
def test_no_pause_stands_at_an_abbreviation_inside_a_sentence(
    prompter: HibariPrompter, generator: HibariGenerator, text: str
) -> None:
    samples, words = spoken(generator, prompt_of(prompter, text))
    gaps = {before.word: after.start_s - before.end_s for before, after in pairwise(words)}
    assert len(words) > 8
    assert max(gaps.values()) <= MAX_GAP_S, gaps
    inside = samples[int(words[0].end_s * 24_000) : int(words[-1].start_s * 24_000)]
    (sound,) = np.nonzero(np.abs(inside) > AUDIBLE)
    assert np.diff(sound).max() / 24_000 <= MAX_GAP_S


def test_telling_changes_no_sample(prompter: HibariPrompter, generator: HibariGenerator) -> None:
    told, words = spoken(generator, prompt_of(prompter, TEXT))
    plain, none = spoken(generator, prompt_of(prompter, TEXT, told=False))
    np.testing.assert_array_equal(told, plain)
    assert words
    assert not none


@pytest.mark.parametrize(
    "text",
    ["", "...", "9" * 400, "word " * 300, "—“a”—", "😀 hi", "a" * 500, "AT&T's B2B @ 5%"],
)
def test_any_text_has_as_many_lists_of_words_as_sentences(
    prompter: HibariPrompter, generator: HibariGenerator, text: str
) -> None:
    data = prompt_of(prompter, text).data
    assert len(data.words) == len(data.sentences)
    for ids, words in zip(data.sentences, data.words, strict=True):
        places = [place for word in words for place in (word.start, word.stop)]
        assert places == sorted(places)
        assert all(0 <= place <= len(ids) for place in places)


EVERYDAY = (
    ("Oh no.", "no.", ""),
    ("It fell by -$5.", "-$5.", "minus five dollars."),
    ("about .25 percent", ".25", "point two five"),
    ("It is $10.5 now", "$10.5", "ten point five dollars"),
    ("PIN 0042", "0042", "zero zero four two"),
    ("the U.S. Army", "U.S.", "U S"),
    ("May 5, 2024", "5,", "fifth,"),
    ("20€", "20€", "twenty euros"),
)


@pytest.mark.parametrize(("text", "word", "read"), EVERYDAY)
def test_everyday_texts_are_timed_with_the_words_spoken_for_them(
    prompter: HibariPrompter, generator: HibariGenerator, text: str, word: str, read: str
) -> None:
    _, words = spoken(generator, prompt_of(prompter, text))
    (found,) = [each for each in words if each.word == word]
    assert text[found.offset :].startswith(word)
    assert (found.read or word) == (read or word)
    assert all(b.start_s - a.end_s <= MAX_GAP_S for a, b in pairwise(words))
