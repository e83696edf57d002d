"""Long text as one stream: joined from its segments, one ahead, free when it is left."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from antiphon.audio.joining import Joiner
from antiphon.audio.utterance import Audio, collect
from antiphon.config import ModelSettings, SpeechSettings
from antiphon.contracts.types import AudioChunk, SpeechRequest
from antiphon.errors import RateLimitError
from antiphon.pipeline.speech.model import SpeechModel
from antiphon.pipeline.speech.service import Speech
from antiphon.pipeline.speech.synthesis import PAUSE_S
from antiphon.pipeline.speech.text import segment_seed
from antiphon.pipeline.speech.text import segments as split_text
from antiphon.stages.base import StageRequest, StageStream

LONG = "\n\n".join(f"{name} paragraph. {'It goes on and on. ' * 8}" for name in ("A", "B", "C"))
ONE = SpeechRequest("Just one segment.", seed=7)


@asynccontextmanager
async def on_toy(**settings: object) -> AsyncGenerator[Speech, None]:
    model = await SpeechModel.load(ModelSettings(source="toy", max_slots=4))
    speech = Speech({model.name: model}, SpeechSettings.model_validate(settings))
    try:
        yield speech
    finally:
        assert model.fabric.num_open == 0
        speech.close()
        await model.close()


async def say(speech: Speech, request: SpeechRequest) -> Audio:
    return await collect(speech.stream(request))


async def test_long_text_is_its_segments_joined() -> None:
    async with on_toy() as speech:
        request = SpeechRequest(LONG, seed=3)
        whole = await say(speech, request)
        segments = [*split_text(LONG, 200)]
        assert len(segments) == 3
        joiner = Joiner(whole.sample_rate_hz)
        parts, num_tokens = [], 0
        for index, segment in enumerate(segments):
            seed = segment_seed(3, index)
            alone = await say(speech, replace(request, input=segment.text, seed=seed))
            has_next = segment is not segments[-1]
            parts.append(joiner.begin(PAUSE_S[segment.boundary], has_next=has_next))
            parts += [joiner.push(alone.samples), joiner.end()]
            num_tokens += alone.usage.input_tokens
        np.testing.assert_array_equal(whole.samples, np.concatenate(parts))
        assert whole.usage.input_tokens == num_tokens


@pytest.mark.parametrize(("speed", "rate_hz"), [(1.0, 24_000), (2.0, 24_000), (0.5, 16_000)])
async def test_a_pause_is_exact_silence_at_any_speed(speed: float, rate_hz: int) -> None:
    async with on_toy() as speech:
        request = SpeechRequest("", seed=1, speed=speed, sample_rate_hz=rate_hz)
        first = await say(speech, replace(request, input="One."))
        both = await say(speech, replace(request, input="One. [pause:1.25s] Two."))
        num_silent = round(1.25 * rate_hz)
        silence = both.samples[len(first.samples) : len(first.samples) + num_silent]
        np.testing.assert_array_equal(both.samples[: len(first.samples)], first.samples)
        np.testing.assert_array_equal(silence, np.zeros(num_silent))
        second = replace(request, input="Two.", seed=segment_seed(1, 1))
        np.testing.assert_array_equal(
            both.samples[len(first.samples) + num_silent :], (await say(speech, second)).samples
        )


async def test_dictionaries_and_numbers_change_what_is_spoken() -> None:
    async with on_toy(pronunciations={"SQL": "sequel"}) as speech:
        said = await say(speech, SpeechRequest("four sequel", seed=1))
        for request in (
            SpeechRequest("4 SQL", seed=1, normalize=True),
            SpeechRequest("4 Q", seed=1, normalize=True, pronunciations={"Q": "sequel"}),
            SpeechRequest("4 SQL", seed=1, pronunciations={"4": "four"}),
        ):
            np.testing.assert_array_equal((await say(speech, request)).samples, said.samples)


async def test_whoever_leaves_frees_all_segments() -> None:
    async with on_toy() as speech:
        (model,) = speech.models.values()
        events = speech.stream(SpeechRequest(LONG, seed=1))
        async with aclosing(events):
            await anext(events)
            await anext(events)
            assert model.fabric.num_open > 0
        assert model.fabric.num_open == 0


async def test_a_segment_that_is_refused_waits_and_the_first_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with on_toy() as speech:
        (model,) = speech.models.values()
        unhindered = await say(speech, SpeechRequest(LONG, seed=1))
        num_refusals = 2
        opened = model.open

        def reluctant(request: StageRequest) -> StageStream:
            nonlocal num_refusals
            if not request.id.endswith("-0") and num_refusals:
                num_refusals -= 1
                raise RateLimitError("Too much.", retry_after_s=0.001)
            return opened(request)

        monkeypatch.setattr(model, "open", reluctant)
        waited = await say(speech, SpeechRequest(LONG, seed=1))
        assert num_refusals == 0
        np.testing.assert_array_equal(waited.samples, unhindered.samples)

        def busy(request: StageRequest) -> StageStream:
            raise RateLimitError("Too much.", retry_after_s=0.001)

        monkeypatch.setattr(model, "open", busy)
        with pytest.raises(RateLimitError):
            await say(speech, SpeechRequest(LONG, seed=1))


@pytest.mark.parametrize("is_live", [True, False])
async def test_a_stage_is_told_which_stream_a_segment_belongs_to(
    monkeypatch: pytest.MonkeyPatch, is_live: bool
) -> None:
    async with on_toy() as speech:
        (model,) = speech.models.values()
        opened, told = model.open, list[StageRequest]()

        def noted(request: StageRequest) -> StageStream:
            told.append(request)
            return opened(request)

        monkeypatch.setattr(model, "open", noted)
        request = SpeechRequest(LONG, seed=1, speed=2.0, is_live=is_live)
        await say(speech, request)
        assert [each.stream_id for each in told] == [request.id] * 3
        assert [each.is_later for each in told] == [False, True, True]
        assert {(each.speed, each.is_live) for each in told} == {(2.0, is_live)}


async def test_silence_lets_others_have_their_turn() -> None:
    """Nothing is waited for while it is made: a pause must not be one long callback."""
    async with on_toy() as speech:
        request = SpeechRequest(f"One.{'[pause:10s]' * 60} Two.", seed=1)
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(others())
        turns_at_silence = []
        async with aclosing(speech.stream(request)) as events:
            async for event in events:
                if isinstance(event, AudioChunk) and not event.samples.any():
                    assert len(event.samples) <= event.sample_rate_hz
                    turns_at_silence.append(turns)
        task.cancel()
        assert len(turns_at_silence) >= 600
        assert all(left < right for left, right in pairwise(turns_at_silence))
