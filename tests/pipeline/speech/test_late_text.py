"""Text that comes late: the same audio as if it had been there, and free when it is dropped."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from antiphon.audio.utterance import collect
from antiphon.contracts.prompt import LateText
from antiphon.contracts.types import AudioChunk, Ended, Samples, Sampling, SpeechRequest
from antiphon.errors import InvalidRequestError
from antiphon.families.registry import families
from antiphon.pipeline.speech.model import SPEECH
from antiphon.pipeline.speech.service import Speech
from antiphon.pipeline.speech.text_stream import SpeechSession
from tests.loops import DEADLINE_S, until
from tests.pipeline.speech.text_streams import (
    LONG_SEED,
    MAX_FRAMES,
    SHORT_SEED,
    TEXT,
    ask,
    heard,
    said,
)
from tests.speeches import loaded


@pytest.fixture(scope="module")
async def late(checkpoint: Callable[..., Path]) -> AsyncGenerator[Speech, None]:
    """A checkpoint, whose text may arrive late."""
    async with loaded(str(checkpoint("tiny", "custom_voice"))) as speech:
        yield speech


@pytest.fixture
def speech(request: pytest.FixtureRequest) -> Speech:
    found: Speech = request.getfixturevalue(request.param)
    return found


# Slow: the same work once more, through the transforms.
MORE = [{}, pytest.param({"speed": 1.5, "sample_rate_hz": 16_000}, marks=pytest.mark.slow)]


@pytest.mark.parametrize("more", MORE, ids=str)
@pytest.mark.parametrize("speech", ["toy", "late"], indirect=True)
async def test_any_split_gives_the_same_audio(speech: Speech, more: dict[str, Any]) -> None:
    whole, ended = await said(speech, [TEXT], **more)
    assert ended.usage.output_tokens >= MAX_FRAMES
    for size in (1, 7, 50):
        pieces = [TEXT[start : start + size] for start in range(0, len(TEXT), size)]
        samples, end = await said(speech, pieces, **more)
        np.testing.assert_array_equal(samples, whole)
        assert end == ended


async def test_late_text_is_spoken_before_it_is_complete(late: Speech) -> None:
    session = SpeechSession(late)
    utterance = session.open(ask())
    async with aclosing(utterance.synthesis.events()) as events:
        utterance.push("Hello there, my ")
        assert isinstance(await anext(events), AudioChunk)
        utterance.push("friends.")
        utterance.complete()
        *_, last = [event async for event in events]
        assert isinstance(last, Ended)
    await session.end(utterance)


async def test_text_that_goes_wrong_within_a_segment_is_refused_after_its_audio(
    late: Speech,
) -> None:
    utterance = SpeechSession(late).open(ask())
    async with aclosing(utterance.synthesis.events()) as events:
        utterance.push("Hello there, my fri")
        assert isinstance(await anext(events), AudioChunk)
        utterance.push("[pause:1s]ends")
        with pytest.raises(InvalidRequestError, match="inside a word"):
            async with asyncio.timeout(DEADLINE_S):
                [event async for event in events]


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


async def test_speech_that_ends_before_its_text_has_ended_whenever_the_rest_comes(
    late: Speech,
) -> None:
    """What comes of the segment after its end is silent; what comes after the segment is not."""
    session, fabric = SpeechSession(late), late.model(None).fabric
    whole, expected = await whole_text(late, TEXT, SHORT_SEED)
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
        all_of_it, expected = await whole_text(late, TEXT[:60] + rest, SHORT_SEED)
        np.testing.assert_array_equal(samples, all_of_it)
        assert ended == expected
        is_one_segment = rest == TEXT[60:]
        assert (len(samples) > len(whole)) != is_one_segment, "the next segment is spoken"
        await session.end(utterance)


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
async def test_however_text_arrives_it_sounds_as_if_it_had_been_there(
    late: Speech, cuts: list[int], waits: list[bool], seed: int
) -> None:
    """Some pieces come when the model has made all that it can of those before."""
    prompter, fabric = late.model(None).prompter, late.model(None).fabric
    assert isinstance(prompter, LateText)
    voice = late.model(None).capabilities.voices[0]
    expected = await whole_text(late, TEXT, seed)
    num_frames = expected[1].usage.output_tokens
    session = SpeechSession(late)
    utterance = session.open(ask(seed=seed))
    chunks: list[AudioChunk] = []
    ends: list[Ended] = []

    def num_heard() -> int:
        return sum(each.num_frames for each in chunks)

    async def listen() -> None:
        async with aclosing(utterance.synthesis.events()) as events:
            async for event in events:
                chunks.append(event) if isinstance(event, AudioChunk) else ends.append(event)

    async def all_is_heard_of(text: str) -> None:
        so_far = replace(ask(), input=text, sampling=whole_sampling)
        num_allowed = prompter.open(so_far, voice, seed)[0].num_frames_allowed or 0
        await until(lambda: num_heard() >= min(num_allowed, num_frames))
        if num_allowed > num_frames:
            await until(lambda: fabric.num_open == 0)

    whole_sampling = late.model(None).task.sampling
    listening = asyncio.create_task(listen())
    for start, end, waits_for_it in zip([0, *cuts], [*cuts, len(TEXT)], waits, strict=False):
        utterance.push(TEXT[start:end])
        if waits_for_it and end < len(TEXT):
            await all_is_heard_of(TEXT[:end])
    utterance.complete()
    await listening
    await session.end(utterance)
    np.testing.assert_array_equal(np.concatenate([each.samples for each in chunks]), expected[0])
    assert ends == [expected[1]]
    assert num_frames <= MAX_FRAMES


@pytest.mark.parametrize("is_heard", [True, False])
@pytest.mark.parametrize("is_complete", [True, False])
@pytest.mark.parametrize("speech", ["toy", "late"], indirect=True)
async def test_what_is_dropped_is_free_at_once(
    speech: Speech, is_complete: bool, is_heard: bool
) -> None:
    session, fabric = SpeechSession(speech), speech.model(None).fabric
    utterances = [session.open(ask()) for _ in range(4)]
    for utterance in utterances:
        utterance.push(TEXT * 5)
        if is_complete:
            utterance.complete()
    events = utterances[0].synthesis.events()
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


async def test_capabilities_tell_the_truth_about_late_text(checkpoint: Callable[..., Path]) -> None:
    """Of families that need no checkpoint, and of one that does: all have conformance tests."""
    ready = [each.name for each in families() if SPEECH in each.tasks and not each.needs_checkpoint]
    for source in (*ready, str(checkpoint("tiny", "base"))):
        async with loaded(source) as speech:
            model = speech.model(None)
            assert isinstance(model.prompter, LateText) or not model.capabilities.late_text


NUM_SPOKEN_FRAMES = 5
LONG_TEXT = " ".join(f"This is sentence number {number}, and it goes on." for number in range(60))
LONG_TEXT = f"{LONG_TEXT[:900]}\n\n{LONG_TEXT[900:]} {'你好世界' * 160}"


@pytest.mark.parametrize("more", MORE, ids=str)
async def test_late_text_is_spoken_as_whole_text_at_any_length(
    more: dict[str, Any], late: Speech
) -> None:
    """Of a model that reads its text beside the frames, and does not end before it has read it."""
    asked = SpeechRequest(
        "",
        seed=LONG_SEED,
        sampling=Sampling(max_frames=NUM_SPOKEN_FRAMES),
        options={"non_streaming_mode": False},
        **more,
    )
    whole = await collect(late.stream(replace(asked, input=LONG_TEXT)))
    num_segments = whole.usage.output_tokens // NUM_SPOKEN_FRAMES
    assert num_segments > 5
    assert whole.usage.output_tokens == num_segments * NUM_SPOKEN_FRAMES, "one ended early"
    session = SpeechSession(late)
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
