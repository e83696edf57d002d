"""Text pushed in pieces: cut and joined as a whole one, bounded, and timed from its beginning."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.audio.joining import Joiner
from antiphon.audio.utterance import Audio, collect
from antiphon.contracts.types import AudioChunk, Ended, Samples, SpeechRequest, WordTime
from antiphon.errors import InputTooLongError, InvalidRequestError, UnspeakableTextError
from antiphon.pipeline.speech.service import Speech
from antiphon.pipeline.speech.synthesis import PAUSE_S
from antiphon.pipeline.speech.text import Boundary, boundary_after, segment_seed
from antiphon.pipeline.speech.text_stream import SpeechSession
from antiphon.stages.base import StageRequest, StageStream
from tests.loops import until
from tests.pipeline.speech.text_streams import LONG_SEED, TEXT, ask, heard, said
from tests.speeches import MAX_CHARACTERS, loaded

SEGMENTS = [
    "Hello there, this is a clause of some length,",
    "and it goes on. I met Dr. Smith today!",
    '"Really?" she asked. Yes.',
    "It cost 3.50 dollars; that is a lot, e.g. for me.",
]


async def joined(speech: Speech, segments: Sequence[str], **more: Any) -> Samples:
    """Speak segments alone, and join them as those of a whole text are."""
    joiner = Joiner(speech.model(None).capabilities.sample_rate_hz)
    parts = []
    for index, text in enumerate(segments):
        seed = segment_seed(LONG_SEED, index)
        alone = await collect(speech.stream(replace(ask(**more), input=text, seed=seed)))
        boundary = boundary_after(segments[index - 1]) if index else Boundary.NONE
        parts.append(joiner.begin(PAUSE_S[boundary], has_next=True))
        parts += [
            joiner.push(alone.samples),
            joiner.end(has_next=index < len(segments) - 1),
        ]
    return np.concatenate(parts)


async def test_segments_are_joined_as_those_of_a_whole_text() -> None:
    """With the same fades and pauses."""
    async with loaded("toy") as speech:
        samples, _ = await said(speech, TEXT)
        np.testing.assert_array_equal(samples, await joined(speech, SEGMENTS))


PIECES = (
    "Yes.",
    "No, not at all!",
    "[pause:300ms]",
    " ",
    "\n\n",
    "SQL",
    "at 5 km,",
    "it is.",
    "“Ah?”",
)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.sampled_from(PIECES), max_size=9).map(" ".join),
    st.integers(1, 30),
    st.sampled_from([{}, {"speed": 1.5, "sample_rate_hz": 16_000}]),
)
async def test_whole_and_arriving_text_sound_the_same_where_it_is_cut_alike(
    toy: Speech, text: str, size: int, more: dict[str, Any]
) -> None:
    """Segments are those of the arriving text: the whole one is spoken with the same segmenter."""
    request = ask(normalize=True, pronunciations={"SQL": "sequel"}, **more)

    async def whole(speech: Speech) -> Audio:
        synthesis = speech.open(request)
        return await collect(synthesis.speak(text))

    try:
        expected = await whole(toy)
    except InvalidRequestError:
        with pytest.raises(InvalidRequestError):
            await said_as(toy, request, text, size)
        return
    samples, ended = await said_as(toy, request, text, size)
    np.testing.assert_array_equal(samples, expected.samples)
    assert ended.usage == expected.usage


async def said_as(
    speech: Speech, request: SpeechRequest, text: str, size: int
) -> tuple[Samples, Ended]:
    session = SpeechSession(speech)
    utterance = session.open(request)

    async def push() -> None:
        for start in range(0, len(text), size):
            utterance.push(text[start : start + size])
            await asyncio.sleep(0)
        utterance.complete()

    try:
        _, result = await asyncio.gather(push(), heard(utterance))
    finally:
        await session.end(utterance)
    return result


async def test_one_sentence_sounds_as_over_http() -> None:
    async with loaded("toy") as speech:
        for text in ("One.", "One. [pause:700ms] Two SQL.", "[pause:1s] It is 5 km."):
            more: dict[str, Any] = {"normalize": True, "pronunciations": {"SQL": "sequel"}}
            whole = await collect(speech.stream(replace(ask(**more), input=text)))
            for size in (1, 5, 100):
                pieces = [text[start : start + size] for start in range(0, len(text), size)]
                samples, ended = await said(speech, pieces, **more)
                np.testing.assert_array_equal(samples, whole.samples)
                assert ended.usage == whole.usage


async def test_a_stage_is_told_which_utterance_a_segment_belongs_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with loaded("toy") as speech:
        (model,) = speech.models.values()
        opened, told = model.open, list[StageRequest]()

        def noted(request: StageRequest) -> StageStream:
            told.append(request)
            return opened(request)

        monkeypatch.setattr(model, "open", noted)
        await said(speech, TEXT)
        await said(speech, TEXT)
        streams = [each.stream_id for each in told]
        assert len(set(streams)) == 2, "each utterance asks to be let in, its segments do not"
        later = [False, *[True] * (len(SEGMENTS) - 1)]
        assert [each.is_later for each in told] == 2 * later
        assert streams == sorted(streams, key=streams.index)


async def test_the_next_utterance_is_begun_while_one_is_heard() -> None:
    async with loaded("toy") as speech:
        session, fabric = SpeechSession(speech), speech.model(None).fabric
        alone = [(await said(speech, text, voice=voice))[0] for text, voice in ORDERED]
        utterances = []
        for text, voice in ORDERED:
            utterances.append(session.open(ask(voice=voice)))
            utterances[-1].push(text)
            utterances[-1].complete()
        await until(lambda: fabric.num_open == 2 * NUM_STAGES or not fabric.num_open)
        for utterance, samples in zip(utterances, alone, strict=True):
            np.testing.assert_array_equal((await heard(utterance))[0], samples)
            await session.end(utterance)


ORDERED = [("The first.", "sine"), ("The second.", "alto"), ("The third.", "bass")]
NUM_STAGES = 2


async def test_no_text_is_an_error_and_so_is_too_much() -> None:
    async with loaded("toy") as speech:
        with pytest.raises(InvalidRequestError, match="empty"):
            await said(speech, [" ", "\n"])
        session = SpeechSession(speech)
        utterance = session.open(ask())
        utterance.push("Hello.")
        with pytest.raises(InputTooLongError):
            utterance.push("a" * MAX_CHARACTERS)
        utterance.complete()
        samples, _ = await heard(utterance)
        np.testing.assert_array_equal(samples, (await said(speech, ["Hello."]))[0])
        await session.end(utterance)


@pytest.mark.parametrize("fields", [{"voice": "nobody"}, {"speed": 9.0}, {"language": "klingon"}])
async def test_what_cannot_be_spoken_is_told_before_there_is_text(fields: dict[str, Any]) -> None:
    async with loaded("toy") as speech:
        with pytest.raises(InvalidRequestError) as caught:
            await speech.check_voice(ask(**fields))
        assert caught.value.param == next(iter(fields))


async def test_a_long_push_lets_others_have_their_turn() -> None:
    async with loaded("toy") as speech:
        session = SpeechSession(speech)
        utterance = session.open(ask())
        items = utterance.synthesis._items
        utterance.push("Hi you. " * 200)
        utterance.push("And the end.")
        utterance.complete()
        sizes = []
        while utterance._waiting:
            sizes.append(len(items))
            await asyncio.sleep(0)
        assert len(sizes) >= 2, "it is cut in pieces"
        await session.end(utterance)


async def test_what_cannot_be_said_is_told_at_the_end_and_refused_if_it_is_all() -> None:
    async with loaded("hibari") as speech:
        text = "Hello there, this is long enough. 你好。世界。 And this is the 🎉 end of it all."
        samples, ended = await said(speech, [text])
        assert len(samples)
        assert ended.unspoken == ("你好", "世界", "🎉")
        with pytest.raises(UnspeakableTextError, match="你好"):
            await said(speech, ["你好。", "世界。"])


async def test_what_models_of_words_alone_leave_out_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with loaded("toy") as speech:
        prompter = speech.model(None).prompter
        monkeypatch.setattr(
            prompter, "capabilities", replace(prompter.capabilities, words_only=True)
        )
        text = "Hello \u4f60\u597d there. [pause:100ms] And \U0001f389 again."
        whole = await collect(speech.stream(replace(ask(), input=text)))
        _, ended = await said(speech, [text])
        assert whole.unspoken == ended.unspoken == ("\u4f60\u597d", "\U0001f389")
        for nothing in ("\U0001f389", "...", "[pause:1s]"):
            with pytest.raises(UnspeakableTextError, match=nothing[:2].replace("[", "")):
                await collect(speech.stream(replace(ask(), input=nothing)))
            with pytest.raises(UnspeakableTextError):
                await said(speech, [nothing])


async def test_silence_of_all_segments_together_is_bounded() -> None:
    async with loaded("toy") as speech:
        with pytest.raises(InvalidRequestError, match="600 s together"):
            await said(speech, ["One. [pause:10s] Two two two two two two two.\n\n"] * 61)


@pytest.mark.parametrize("speed", [1.0, 2.0])
async def test_words_are_timed_from_the_beginning_of_the_utterance(speed: float) -> None:
    texts = ["One two three, and so it goes on and on.", "Four five six seven eight nine."]
    async with loaded("hibari") as speech:
        asked = ask(word_timestamps=True)
        alone = []
        for index, text in enumerate(texts):
            seed = segment_seed(LONG_SEED, index)
            events = [each async for each in speech.stream(replace(asked, input=text, seed=seed))]
            alone.append([each for each in events if isinstance(each, AudioChunk)])
        session = SpeechSession(speech)
        utterance = session.open(replace(asked, speed=speed, sample_rate_hz=16_000))
        for text in texts:
            utterance.push(text + " ")
        utterance.complete()
        found: list[WordTime] = []
        heard_s = 0.0
        async for event in utterance.synthesis.events():
            if isinstance(event, AudioChunk):
                assert all(word.start_s >= heard_s - 0.3 for word in event.words)
                found += event.words
                heard_s += event.duration_s
        await session.end(utterance)
        expected = []
        start_s = 0.0
        for chunks in alone:
            expected += [
                (word.word, (start_s + word.start_s) / speed)
                for chunk in chunks
                for word in chunk.words
            ]
            start_s += sum(chunk.duration_s for chunk in chunks)
        assert [each.word for each in found] == [word for word, _ in expected]
        starts_s = [each.start_s for each in found]
        assert starts_s == pytest.approx([each_s for _, each_s in expected])
        assert found[-1].end_s <= heard_s + 0.01
