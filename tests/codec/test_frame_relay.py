"""A codec stage of its own: the audio is that of the whole, however frames arrive."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.codec.runners import FrameRelay
from antiphon.contracts.family import LoadContext
from antiphon.contracts.prompt import Piece, Prompt
from antiphon.contracts.types import AudioChunk, Ended, FinishReason, FrameReady, Samples, Sampling
from antiphon.engine.plan import Append, Start, StepPlan
from antiphon.errors import EngineError
from antiphon.families.toy import FAMILY
from antiphon.families.toy.codec import ToneCodec
from antiphon.families.toy.talker import ToyFrame
from antiphon.stages.base import StageItem, StageRequest
from antiphon.stages.build import build_stage
from antiphon.telemetry.stage_status import StageStatus

CODEC = FAMILY.tasks["speech"].pipeline[1]
CONTEXT = LoadContext(device="cpu", max_slots=2)
PROMPT = Prompt(data="only the talker reads this", num_tokens=1, seed=5, num_positions=9)
PAUSES = st.lists(st.integers(0, 3), min_size=1, max_size=40)


def frames(num_frames: int) -> list[ToyFrame]:
    return [np.array([200.0 + 3 * number, 0.3]) for number in range(num_frames)]


def whole(made: Sequence[ToyFrame]) -> Samples:
    codec = ToneCodec(CONTEXT)
    return codec.decode_row(np.stack(made), codec.open(1), 0)


async def upstream(
    pauses: Sequence[int], reason: FinishReason = "stop"
) -> AsyncGenerator[StageItem, None]:
    for frame, pause in zip(frames(len(pauses)), pauses, strict=True):
        for _ in range(pause):
            await asyncio.sleep(0)
        yield FrameReady(frame)
    yield Ended(reason)


async def heard(stream: AsyncGenerator[StageItem, None]) -> tuple[Samples, Ended]:
    async with aclosing(stream) as items:
        *chunks, ended = [item async for item in items]
    assert isinstance(ended, Ended)
    return np.concatenate([each.samples for each in chunks if isinstance(each, AudioChunk)]), ended


@settings(max_examples=20, deadline=None)
@given(st.lists(PAUSES, min_size=1, max_size=5))
def test_audio_is_that_of_the_whole_however_frames_arrive(streams: list[list[int]]) -> None:
    async def main() -> None:
        stage = build_stage([CODEC], CONTEXT, lambda status: None)
        found = await asyncio.gather(
            *(
                heard(stage.open(StageRequest(f"{number}", PROMPT), upstream(pauses)))
                for number, pauses in enumerate(streams)
            )
        )
        await stage.close()
        for pauses, (samples, ended) in zip(streams, found, strict=True):
            np.testing.assert_array_equal(samples, whole(frames(len(pauses))))
            assert ended == Ended("stop")

    asyncio.run(main())


async def test_the_reason_of_the_end_is_upstreams_or_that_of_an_abort() -> None:
    stage = build_stage([CODEC], CONTEXT, lambda status: None)
    stream = stage.open(StageRequest("a", PROMPT), upstream([0] * 5, "length"))
    assert (await heard(stream))[1] == Ended("length")
    async with aclosing(stage.open(StageRequest("b", PROMPT), upstream([0] * 9999))) as items:
        assert isinstance(await anext(items), AudioChunk)
        stage.abort("b")
        assert [item async for item in items if isinstance(item, Ended)] == [Ended("abort")]
    await stage.close()


async def test_the_stage_before_is_slowed_down_by_a_slow_listener() -> None:
    num_pulled = 0

    async def counted() -> AsyncGenerator[StageItem, None]:
        nonlocal num_pulled
        async with aclosing(upstream([0] * 5000)) as items:
            async for item in items:
                num_pulled += 1
                yield item

    stage = build_stage([CODEC], CONTEXT, lambda status: None)
    async with aclosing(stage.open(StageRequest("a", PROMPT), counted())) as items:
        await anext(items)
        for _ in range(1000):
            await asyncio.sleep(0)
        assert 0 < num_pulled < 500
    await stage.close()


async def test_what_fails_upstream_fails_the_stream() -> None:
    async def failing() -> AsyncGenerator[StageItem, None]:
        yield FrameReady(frames(1)[0])
        raise EngineError("broken on purpose")

    statuses: list[StageStatus] = []
    stage = build_stage([CODEC], CONTEXT, statuses.append)
    with pytest.raises(EngineError, match="broken on purpose"):
        await heard(stage.open(StageRequest("a", PROMPT), failing()))
    assert statuses[-1].num_open == 0
    await stage.close()


def test_after_a_preemption_frames_that_were_made_are_not_made_again() -> None:
    made = frames(4)
    relay = FrameRelay(1)
    pieces = [Piece(data=frame, num_frames_allowed=n + 1) for n, frame in enumerate(made)]
    sampled = Prompt(data=None, num_tokens=1, seed=0, sampling=Sampling(max_frames=9))
    first = StepPlan(starts=(Start(0, sampled),), appends=tuple(Append(0, p) for p in pieces[:2]))
    relay.launch(first)
    for number in range(2):
        output = relay.launch(StepPlan(decode_slots=(0,))).result()
        np.testing.assert_array_equal(output.frames[0], made[number])
    again = StepPlan(
        releases=(0,),
        starts=(Start(0, sampled, tuple(made[:2])),),
        appends=tuple(Append(0, piece) for piece in pieces),
        decode_slots=(0,),
    )
    np.testing.assert_array_equal(relay.launch(again).result().frames[0], made[2])
    assert relay.frame_store is not None
    np.testing.assert_array_equal(relay.frame_store[0, :3], np.stack(made[:3]))
