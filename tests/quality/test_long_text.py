"""A long text in the default voice, heard by a real recogniser: no sentence is lost on the way."""

import itertools
from difflib import SequenceMatcher

import pytest

from antiphon.audio.utterance import Audio, collect
from antiphon.config import ModelSettings, SpeechSettings
from antiphon.contracts.types import SpeechRequest
from antiphon.pipeline.speech.model import SpeechModel
from antiphon.pipeline.speech.service import Speech
from tests.asr import transcribe, words
from tests.loops import on_a_loop

WHO = ("The teacher", "My brother", "A young doctor", "The old farmer", "Our neighbor", "The queen")
DID = ("carried", "found", "painted", "sold", "remembered", "washed", "forgot")
WHAT = ("a heavy basket", "the blue letter", "seven apples", "a broken chair", "the silver ring")
WHERE = ("near the river", "behind the school", "in the kitchen", "at the market")
WHEN = ("before sunrise", "last winter", "on Monday morning", "after the long storm", "at noon")
NUM_SENTENCES, SENTENCES_A_PARAGRAPH = 48, 8
MIN_COVERAGE = 0.9
MAX_MISSED_WORDS_IN_A_ROW = 8
"""Fewer than a sentence has."""


def story(num_sentences: int) -> str:
    parts = (itertools.cycle(each) for each in (WHO, DID, WHAT, WHERE, WHEN))
    sentences = [
        " ".join(each) + "." for each in itertools.islice(zip(*parts, strict=True), num_sentences)
    ]
    paragraphs = range(0, num_sentences, SENTENCES_A_PARAGRAPH)
    return "\n\n".join(
        " ".join(sentences[start : start + SENTENCES_A_PARAGRAPH]) for start in paragraphs
    )


@on_a_loop
async def spoken(text: str) -> Audio:
    model = await SpeechModel.load(ModelSettings())
    speech = Speech({model.name: model}, SpeechSettings())
    try:
        return await collect(speech.stream(SpeechRequest(text, seed=1)))
    finally:
        speech.close()
        await model.close()


@pytest.mark.slow  # listens to minutes of speech
def test_every_part_of_a_long_text_is_heard() -> None:
    text = story(NUM_SENTENCES)
    audio = spoken(text)
    said, heard = words(text), words(transcribe(audio.samples, audio.sample_rate_hz))
    assert len(set(text.split("."))) > NUM_SENTENCES, "each sentence is told from the others"
    matches = SequenceMatcher(None, said, heard, autojunk=False).get_matching_blocks()
    coverage = sum(match.size for match in matches) / len(said)
    ends = [0, *(match.a + match.size for match in matches)]
    missed = max(match.a - end for match, end in zip(matches, ends, strict=False))
    print(f"coverage: {coverage:.1%} of {len(said)} words, {missed} missed in a row")  # noqa: T201
    assert coverage >= MIN_COVERAGE, (coverage, " ".join(heard))
    assert missed <= MAX_MISSED_WORDS_IN_A_ROW
