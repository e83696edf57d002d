"""Turns of a dialogue: heard in order, as each is alone, and refused before the first."""

from contextlib import aclosing
from dataclasses import replace

import numpy as np
import pytest

from antiphon.audio.wav import silence
from antiphon.contracts.types import (
    AudioChunk,
    Ended,
    Samples,
    SpeechRequest,
    SpeechStream,
    WordTime,
)
from antiphon.errors import (
    InputTooLongError,
    InvalidRequestError,
    RateLimitError,
    UnspeakableTextError,
)
from antiphon.pipeline.speech.dialogue import Dialogue
from tests.speeches import loaded

RATE_HZ = 16_000
PAUSE_S = 0.5
TURNS = [
    SpeechRequest("Hello there.", voice="sine", seed=1, sample_rate_hz=RATE_HZ),
    SpeechRequest("Hello.", voice="alto", seed=2, sample_rate_hz=RATE_HZ, speed=2.0),
    SpeechRequest("And good bye.", voice="bass", seed=3, sample_rate_hz=RATE_HZ),
]


async def heard(events: SpeechStream) -> tuple[Samples, Ended, list[WordTime]]:
    chunks: list[Samples] = []
    words: list[WordTime] = []
    async with aclosing(events):
        async for event in events:
            if isinstance(event, Ended):
                return np.concatenate(chunks), event, words
            chunks.append(event.samples)
            words += event.words
    raise AssertionError("a stream ends with its end")


async def test_turns_sound_as_they_do_alone() -> None:
    async with loaded("toy", max_input_characters=100) as speech:
        alone = [await heard(speech.stream(turn)) for turn in TURNS]
        dialogue = Dialogue(speech, TURNS, speech.stream, PAUSE_S)
        samples, ended, _ = await heard(dialogue.events())
        silence = np.zeros(round(PAUSE_S * RATE_HZ), np.float32)
        first, second, third = (each[0] for each in alone)
        np.testing.assert_array_equal(
            samples, np.concatenate([first, silence, second, silence, third])
        )
        assert ended.usage.output_tokens == sum(each[1].usage.output_tokens for each in alone)
        starts = [each.start_s for each in dialogue.turn_times]
        ends = [each.end_s for each in dialogue.turn_times]
        lengths = [len(each) / RATE_HZ for each in (first, second, third)]
        assert ends == pytest.approx(np.add(starts, lengths))
        assert starts[1:] == pytest.approx(np.add(ends[:-1], PAUSE_S))


async def test_words_are_timed_from_the_beginning_of_all() -> None:
    turns = [
        SpeechRequest(text, seed=1, word_timestamps=True) for text in ("One two.", "Three four.")
    ]
    async with loaded("hibari", max_input_characters=100) as speech:
        alone = [await heard(speech.stream(turn)) for turn in turns]
        dialogue = Dialogue(speech, turns, speech.stream, PAUSE_S)
        _, _, words = await heard(dialogue.events())
        assert [each.word for each in words] == ["One", "two.", "Three", "four."]
        start_s = dialogue.turn_times[1].start_s
        for word, expected in zip(words, [*alone[0][2], *alone[1][2]], strict=True):
            by_s = 0 if word.word in ("One", "two.") else start_s
            assert word.start_s == pytest.approx(expected.start_s + by_s)
            assert word.end_s == pytest.approx(expected.end_s + by_s)


@pytest.mark.parametrize(
    ("last", "error"),
    [
        (replace(TURNS[2], voice="nobody"), InvalidRequestError),
        (replace(TURNS[2], input=" "), InvalidRequestError),
        (replace(TURNS[2], language="klingon"), InvalidRequestError),
        (replace(TURNS[2], input="long " * 20), InputTooLongError),
    ],
)
async def test_a_wrong_turn_is_refused_before_the_first_is_heard(
    last: SpeechRequest, error: type[Exception]
) -> None:
    async with loaded("toy", max_input_characters=100) as speech:
        events = Dialogue(speech, [*TURNS[:2], last], speech.stream).events()
        with pytest.raises(error):
            await anext(events)


@pytest.mark.parametrize("place", [0, 1, 2])
async def test_a_turn_that_cannot_be_spoken_is_left_out(place: int) -> None:
    turns = [SpeechRequest(text, seed=1) for text in ("One.", "Two.")]
    turns.insert(place, SpeechRequest("\u4f60\u597d"))
    async with loaded("hibari") as speech:
        spoken = [await heard(speech.stream(turn)) for turn in turns if turn.seed]
        samples, ended, _ = await heard(Dialogue(speech, turns, speech.stream).events())
        np.testing.assert_array_equal(samples, np.concatenate([each[0] for each in spoken]))
        assert ended.unspoken == ("\u4f60\u597d",)
        with pytest.raises(UnspeakableTextError):
            await heard(Dialogue(speech, [turns[place]] * 2, speech.stream).events())


@pytest.mark.parametrize("place", [0, 1, 2])
async def test_the_pauses_of_a_turn_that_cannot_be_spoken_are_silence(place: int) -> None:
    turns = [SpeechRequest(text, seed=1) for text in ("One.", "Two.")]
    turns.insert(place, SpeechRequest("\u4f60 [pause:1.5s] \u597d [pause:500ms]"))
    async with loaded("hibari") as speech:
        spoken = [(await heard(speech.stream(turn)))[0] for turn in turns if turn.seed]
        rate_hz = speech.model(None).capabilities.sample_rate_hz
        spoken.insert(place, silence(2 * rate_hz))
        dialogue = Dialogue(speech, turns, speech.stream)
        samples, ended, _ = await heard(dialogue.events())
        np.testing.assert_array_equal(samples, np.concatenate(spoken))
        ends_s = np.cumsum([len(each) for each in spoken]) / rate_hz
        assert [each.end_s for each in dialogue.turn_times] == pytest.approx([*ends_s])
        assert ended.unspoken == ("\u4f60", "\u597d")


async def test_a_later_turn_waits_where_the_first_is_refused() -> None:
    async with loaded("toy", max_input_characters=100) as speech:
        refused: list[str] = []

        async def busy(turn: SpeechRequest) -> SpeechStream:
            if turn.input not in refused:
                refused.append(turn.input)
                raise RateLimitError("busy", retry_after_s=0.001)
            async with aclosing(speech.stream(turn)) as events:
                async for event in events:
                    yield event

        with pytest.raises(RateLimitError):
            await heard(Dialogue(speech, TURNS, busy).events())
        samples, _, _ = await heard(Dialogue(speech, TURNS, busy).events())
        expected, _, _ = await heard(Dialogue(speech, TURNS, speech.stream).events())
        assert refused == [turn.input for turn in TURNS]
        np.testing.assert_array_equal(samples, expected)


async def test_leaving_frees_all_turns() -> None:
    async with loaded("toy", max_input_characters=100) as speech:
        async with aclosing(Dialogue(speech, TURNS, speech.stream).events()) as events:
            assert isinstance(await anext(events), AudioChunk)
        assert speech.model(None).fabric.num_open == 0
