"""Text pushed in pieces: the same audio as in one piece, in order, and free when it is dropped."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from antiphon.audio.joining import Joiner
from antiphon.audio.utterance import Audio, collect
from antiphon.errors import (
    InputTooLongError,
    InvalidRequestError,
    UnspeakableTextError,
)
from antiphon.fabric.base import StageRequest, StageStream
from antiphon.models.base import LateText
from antiphon.models.registry import families
from antiphon.pipeline.speech.model import SPEECH
from antiphon.pipeline.speech.service import Speech
from antiphon.pipeline.speech.text import Boundary, boundary_after, segment_seed
from antiphon.pipeline.speech.text_stream import SpeechSession, Utterance
from antiphon.pipeline.speech.track import PAUSE_S
from antiphon.types import (
    AudioChunk,
    Ended,
    Samples,
    Sampling,
    SpeechRequest,
    WordTime,
)
from tests.speeches import MAX_CHARACTERS, KeptSpeech, kept, on

TEXT = (
    "Hello there, this is a clause of some length, and it goes on. I met Dr. Smith today!"
    ' "Really?" she asked. Yes. It cost 3.50 dollars; that is a lot, e.g. for me.'
)
MAX_FRAMES = 30
SEGMENTS = [
    "Hello there, this is a clause of some length,",
    "and it goes on. I met Dr. Smith today!",
    '"Really?" she asked. Yes.',
    "It cost 3.50 dollars; that is a lot, e.g. for me.",
]


@pytest.fixture(scope="module")
def late(checkpoint: Callable[..., Path]) -> Iterator[KeptSpeech]:
    """A checkpoint, whose text may arrive late."""
    with kept(str(checkpoint("tiny", "custom_voice"))) as speech:
        yield speech


@pytest.fixture(scope="module")
def toy() -> Iterator[KeptSpeech]:
    """The toy family."""
    with kept("toy") as speech:
        yield speech


LONG_SEED, SHORT_SEED = 0, 1
"""With the random checkpoint, the one speaks for long, the other ends after a few frames."""


def ask(*, seed: int = LONG_SEED, **more: Any) -> SpeechRequest:
    return SpeechRequest("", seed=seed, sampling=Sampling(max_frames=MAX_FRAMES), **more)


async def heard(utterance: Utterance) -> tuple[Samples, Ended]:
    chunks: list[Samples] = []
    async with aclosing(utterance.events()) as events:
        async for event in events:
            if isinstance(event, Ended):
                return np.concatenate(chunks), event
            chunks.append(event.samples)
    raise AssertionError("a stream ends with its end")


async def said(speech: Speech, pieces: Iterable[str], **more: Any) -> tuple[Samples, Ended]:
    """Push pieces while listening."""
    session = SpeechSession(speech)
    utterance = session.open(ask(**more))

    async def push() -> None:
        for piece in pieces:
            utterance.push(piece)
            await asyncio.sleep(0)
        utterance.complete()

    _, result = await asyncio.gather(push(), heard(utterance))
    await session.end(utterance)
    return result


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


def test_segments_are_joined_as_those_of_a_whole_text() -> None:
    """With the same fades and pauses."""

    async def body(speech: Speech) -> None:
        samples, _ = await said(speech, TEXT)
        np.testing.assert_array_equal(samples, await joined(speech, SEGMENTS))

    on("toy", body)


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
def test_whole_and_arriving_text_sound_the_same_where_it_is_cut_alike(
    toy: KeptSpeech, text: str, size: int, more: dict[str, Any]
) -> None:
    """Segments are those of the arriving text: the whole one is spoken with the same segmenter."""
    request = ask(normalize=True, pronunciations={"SQL": "sequel"}, **more)

    async def whole(speech: Speech) -> Audio:
        synthesis = speech.open(request)
        return await collect(synthesis.events(text))

    async def body(speech: Speech) -> None:
        try:
            expected = await whole(speech)
        except InvalidRequestError:
            with pytest.raises(InvalidRequestError):
                await said_as(speech, request, text, size)
            return
        samples, ended = await said_as(speech, request, text, size)
        np.testing.assert_array_equal(samples, expected.samples)
        assert ended.usage == expected.usage

    toy.run(body)


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


def test_one_sentence_sounds_as_over_http() -> None:
    async def body(speech: Speech) -> None:
        for text in ("One.", "One. [pause:700ms] Two SQL.", "[pause:1s] It is 5 km."):
            more: dict[str, Any] = {"normalize": True, "pronunciations": {"SQL": "sequel"}}
            whole = await collect(speech.stream(replace(ask(**more), input=text)))
            for size in (1, 5, 100):
                pieces = [text[start : start + size] for start in range(0, len(text), size)]
                samples, ended = await said(speech, pieces, **more)
                np.testing.assert_array_equal(samples, whole.samples)
                assert ended.usage == whole.usage

    on("toy", body)


def test_a_stage_is_told_which_utterance_a_segment_belongs_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def body(speech: Speech) -> None:
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

    on("toy", body)


# Slow: the same work once more, through the transforms.
MORE = [{}, pytest.param({"speed": 1.5, "sample_rate_hz": 16_000}, marks=pytest.mark.slow)]


@pytest.mark.parametrize("more", MORE, ids=str)
@pytest.mark.parametrize("kind", ["toy", "late"])
def test_any_split_gives_the_same_audio(
    kind: str, more: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    speech_of_kind: KeptSpeech = request.getfixturevalue(kind)

    async def body(speech: Speech) -> None:
        whole, ended = await said(speech, [TEXT], **more)
        assert ended.usage.output_tokens >= MAX_FRAMES
        for size in (1, 7, 50):
            pieces = [TEXT[start : start + size] for start in range(0, len(TEXT), size)]
            samples, end = await said(speech, pieces, **more)
            np.testing.assert_array_equal(samples, whole)
            assert end == ended

    speech_of_kind.run(body)


def test_late_text_is_spoken_before_it_is_complete(late: KeptSpeech) -> None:
    async def body(speech: Speech) -> None:
        session = SpeechSession(speech)
        utterance = session.open(ask())
        async with aclosing(utterance.events()) as events:
            utterance.push("Hello there, my ")
            assert isinstance(await anext(events), AudioChunk)
            utterance.push("friends.")
            utterance.complete()
            *_, last = [event async for event in events]
            assert isinstance(last, Ended)
        await session.end(utterance)

    late.run(body)


async def whole_text(speech: Speech, text: str, seed: int) -> tuple[Samples, Ended]:
    """Speak a text that is there from the beginning, read beside the frames as late text is."""
    request = replace(ask(seed=seed), input=text, options={"non_streaming_mode": False})
    chunks: list[Samples] = []
    async with aclosing(speech.stream(request)) as events:
        async for event in events:
            if isinstance(event, Ended):
                return np.concatenate(chunks), event
            chunks.append(event.samples)
    raise AssertionError("a stream ends with its end")


def test_speech_that_ends_before_its_text_has_ended_whenever_the_rest_comes(
    late: KeptSpeech,
) -> None:
    """What comes of the segment after its end is silent; what comes after the segment is not."""

    async def body(speech: Speech) -> None:
        session, fabric = SpeechSession(speech), speech.model(None).fabric
        whole, expected = await whole_text(speech, TEXT, SHORT_SEED)
        assert expected.reason == "stop"
        assert 0 < expected.usage.output_tokens < expected.usage.input_tokens // 2
        for rest in (TEXT[60:], TEXT[60:] + " And on it goes." * 25):
            utterance = session.open(ask(seed=SHORT_SEED))
            utterance.push(TEXT[:60])
            listening = asyncio.create_task(heard(utterance))
            await until(lambda: fabric.num_open > 0)
            await until(lambda: fabric.num_open == 0)
            utterance.push(rest)
            utterance.complete()
            samples, ended = await listening
            all_of_it, expected = await whole_text(speech, TEXT[:60] + rest, SHORT_SEED)
            np.testing.assert_array_equal(samples, all_of_it)
            assert ended == expected
            is_one_segment = rest == TEXT[60:]
            assert (len(samples) > len(whole)) != is_one_segment, "the next segment is spoken"
            await session.end(utterance)

    late.run(body)


@pytest.mark.slow  # a dozen texts, spoken by a checkpoint twice each
@settings(max_examples=12, deadline=None)
@example(  # a space at the end of a piece ends a word, which is then read
    cuts=[1, 15, 16, 30, 32, 93],
    waits=[True, False, False, True, True, True, False],
    seed=LONG_SEED,
)
@given(
    cuts=st.lists(st.integers(1, len(TEXT) - 1), min_size=1, max_size=6, unique=True).map(sorted),
    waits=st.lists(st.booleans(), min_size=7, max_size=7),
    seed=st.sampled_from([LONG_SEED, SHORT_SEED, 3, 5]),
)
def test_however_text_arrives_it_sounds_as_if_it_had_been_there(
    late: KeptSpeech, cuts: list[int], waits: list[bool], seed: int
) -> None:
    """Some pieces come when the model has made all that it can of those before."""
    speech = late.speech
    prompter, fabric = speech.model(None).prompter, speech.model(None).fabric
    assert isinstance(prompter, LateText)
    voice = speech.model(None).capabilities.voices[0]

    async def body(speech: Speech) -> None:
        expected = await whole_text(speech, TEXT, seed)
        num_frames = expected[1].usage.output_tokens
        session = SpeechSession(speech)
        utterance = session.open(ask(seed=seed))
        chunks: list[AudioChunk] = []
        ends: list[Ended] = []

        def num_heard() -> int:
            return sum(each.num_frames for each in chunks)

        async def listen() -> None:
            async with aclosing(utterance.events()) as events:
                async for event in events:
                    chunks.append(event) if isinstance(event, AudioChunk) else ends.append(event)

        async def all_is_heard_of(text: str) -> None:
            so_far = replace(ask(), input=text, sampling=whole_sampling)
            num_allowed = prompter.open(so_far, voice, seed)[0].num_frames_allowed or 0
            await until(lambda: num_heard() >= min(num_allowed, num_frames))
            if num_allowed > num_frames:
                await until(lambda: fabric.num_open == 0)

        whole_sampling = speech.model(None).task.sampling
        listening = asyncio.create_task(listen())
        for start, end, waits_for_it in zip([0, *cuts], [*cuts, len(TEXT)], waits, strict=False):
            utterance.push(TEXT[start:end])
            if waits_for_it and end < len(TEXT):
                await all_is_heard_of(TEXT[:end])
        utterance.complete()
        await listening
        await session.end(utterance)
        np.testing.assert_array_equal(
            np.concatenate([each.samples for each in chunks]), expected[0]
        )
        assert ends == [expected[1]]
        assert num_frames <= MAX_FRAMES

    late.run(body)


def test_the_next_utterance_is_begun_while_one_is_heard() -> None:
    async def body(speech: Speech) -> None:
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

    on("toy", body)


ORDERED = [("The first.", "sine"), ("The second.", "alto"), ("The third.", "bass")]
NUM_STAGES = 2


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.001)


@pytest.mark.parametrize("is_heard", [True, False])
@pytest.mark.parametrize("is_complete", [True, False])
@pytest.mark.parametrize("kind", ["toy", "late"])
def test_what_is_dropped_is_free_at_once(
    kind: str, is_complete: bool, is_heard: bool, request: pytest.FixtureRequest
) -> None:
    speech_of_kind: KeptSpeech = request.getfixturevalue(kind)

    async def body(speech: Speech) -> None:
        session, fabric = SpeechSession(speech), speech.model(None).fabric
        utterances = [session.open(ask()) for _ in range(4)]
        for utterance in utterances:
            utterance.push(TEXT * 5)
            if is_complete:
                utterance.complete()
        events = utterances[0].events()
        if is_heard:
            await anext(events)
        await session.clear()
        assert fabric.num_open == 0
        await events.aclose()
        # No listener: on a busy machine one might be refused for want of time.
        again = session.open(replace(ask(), is_live=False))
        again.push("Again.")
        again.complete()
        assert len((await heard(again))[0])
        await session.end(again)

    speech_of_kind.run(body)


def test_no_text_is_an_error_and_so_is_too_much() -> None:
    async def body(speech: Speech) -> None:
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

    on("toy", body)


@pytest.mark.parametrize("fields", [{"voice": "nobody"}, {"speed": 9.0}, {"language": "klingon"}])
def test_what_cannot_be_spoken_is_told_before_there_is_text(fields: dict[str, Any]) -> None:
    async def body(speech: Speech) -> None:
        with pytest.raises(InvalidRequestError) as caught:
            await speech.check_voice(ask(**fields))
        assert caught.value.param == next(iter(fields))

    on("toy", body)


def test_capabilities_tell_the_truth_about_late_text(checkpoint: Callable[..., Path]) -> None:
    """Of families that need no checkpoint, and of one that does: all have conformance tests."""
    ready = [each.name for each in families() if SPEECH in each.tasks and not each.needs_checkpoint]
    for source in (*ready, str(checkpoint("tiny", "base"))):

        async def body(speech: Speech) -> None:
            model = speech.model(None)
            assert isinstance(model.prompter, LateText) or not model.capabilities.late_text

        on(source, body)


NUM_SPOKEN_FRAMES = 5
LONG_TEXT = " ".join(f"This is sentence number {number}, and it goes on." for number in range(60))
LONG_TEXT = f"{LONG_TEXT[:900]}\n\n{LONG_TEXT[900:]} {'你好世界' * 160}"


@pytest.mark.parametrize("more", MORE, ids=str)
def test_late_text_is_spoken_as_whole_text_at_any_length(
    more: dict[str, Any], late: KeptSpeech
) -> None:
    """Of a model that reads its text beside the frames, and does not end before it has read it."""
    asked = SpeechRequest(
        "",
        seed=LONG_SEED,
        sampling=Sampling(max_frames=NUM_SPOKEN_FRAMES),
        options={"non_streaming_mode": False},
        **more,
    )

    async def body(speech: Speech) -> None:
        whole = await collect(speech.stream(replace(asked, input=LONG_TEXT)))
        num_segments = whole.usage.output_tokens // NUM_SPOKEN_FRAMES
        assert num_segments > 5
        assert whole.usage.output_tokens == num_segments * NUM_SPOKEN_FRAMES, "one ended early"
        session = SpeechSession(speech)
        for size in (3, 1001):
            pieces = [LONG_TEXT[at : at + size] for at in range(0, len(LONG_TEXT), size)]
            utterance = session.open(asked)
            for piece in pieces:
                utterance.push(piece)
            utterance.complete()
            samples, ended = await heard(utterance)
            await session.end(utterance)
            np.testing.assert_array_equal(samples, whole.samples)
            assert ended == Ended(whole.finish_reason, whole.usage)

    late.run(body)


def test_a_long_push_lets_others_have_their_turn() -> None:
    async def body(speech: Speech) -> None:
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

    on("toy", body)


def test_what_cannot_be_said_is_told_at_the_end_and_refused_if_it_is_all() -> None:
    async def body(speech: Speech) -> None:
        text = "Hello there, this is long enough. 你好。世界。 And this is the 🎉 end of it all."
        samples, ended = await said(speech, [text])
        assert len(samples)
        assert ended.unspoken == ("你好", "世界", "🎉")
        with pytest.raises(UnspeakableTextError, match="你好"):
            await said(speech, ["你好。", "世界。"])

    on("hibari", body)


def test_silence_of_all_segments_together_is_bounded() -> None:
    async def body(speech: Speech) -> None:
        with pytest.raises(InvalidRequestError, match="600 s together"):
            await said(speech, ["One. [pause:10s] Two two two two two two two.\n\n"] * 61)

    on("toy", body)


@pytest.mark.parametrize("speed", [1.0, 2.0])
def test_words_are_timed_from_the_beginning_of_the_utterance(speed: float) -> None:
    texts = ["One two three, and so it goes on and on.", "Four five six seven eight nine."]

    async def body(speech: Speech) -> None:
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
        async for event in utterance.events():
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

    on("hibari", body)
