"""Late text, and stages on devices of their own: all ends once, and leaves nothing behind."""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from antiphon.config import ModelSettings
from antiphon.contracts.family import ItemKind, LoadContext, Ref, StageKind, StageSpec
from antiphon.contracts.prompt import Admitted, Piece
from antiphon.contracts.types import AudioChunk, Ended, FrameReady, Samples, SpeechRequest
from antiphon.errors import EngineError, InvalidRequestError, OverloadedError
from antiphon.families.toy.codec import ToneCodec
from antiphon.families.toy.prompt import ToyPrompter
from antiphon.families.toy.talker import ToyRunner
from antiphon.pipeline.speech.model import SpeechModel
from antiphon.stages import build
from antiphon.stages.base import StageItem, StageRequest, StageStream
from antiphon.stages.build import engine_groups, shared_engines
from tests.loops import until

"""For what must happen at all; how soon is nowhere asserted."""


class Text:
    """Arrives in parts; then it is closed, or nothing comes any more."""

    def __init__(self, parts: Iterable[str], *, is_closed: bool = True) -> None:
        self.has_left = False
        self._parts = parts
        self._is_closed = is_closed

    def open(self, model: SpeechModel) -> StageStream:
        assert isinstance(model.prompter, ToyPrompter)
        request = SpeechRequest("", sampling=model.task.sampling)
        prompt, feed = model.prompter.open(request, model.capabilities.voices[0], 1)

        async def pieces() -> AsyncGenerator[Piece, None]:
            try:
                for part in self._parts:
                    if (piece := feed.push(part)) is not None:
                        yield piece
                if self._is_closed:
                    yield feed.close()
                else:
                    await asyncio.Event().wait()
            finally:
                self.has_left = True

        return model.open(StageRequest("late", prompt), pieces())


@asynccontextmanager
async def on_toy() -> AsyncGenerator[SpeechModel, None]:
    model = await SpeechModel.load(ModelSettings(source="toy", device="cpu", max_slots=2))
    try:
        yield model
        assert model.fabric.num_open == 0
        assert model.status.failure is None
    finally:
        await model.close()


async def test_what_is_wrong_with_the_text_is_told_to_the_listener() -> None:
    async with on_toy() as model:
        text = Text([])  # empty, as is known at its end
        with pytest.raises(InvalidRequestError):
            [item async for item in text.open(model)]
        assert text.has_left


async def test_a_decoder_is_loaded_first_so_that_the_cache_takes_what_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loaded: list[StageKind] = []
    load = build._load

    def recorded(spec: StageSpec, context: LoadContext) -> Any:
        loaded.append(spec.kind)
        return load(spec, context)

    monkeypatch.setattr(build, "_load", recorded)
    async with on_toy():
        assert loaded == [StageKind.DECODER, StageKind.AUTOREGRESSIVE]


async def test_a_listener_who_leaves_ends_the_text_and_frees_the_slot() -> None:
    async with on_toy() as model:
        for _ in range(3):  # more than there are slots
            text = Text(["la la la la"], is_closed=False)
            async with aclosing(text.open(model)) as items:
                assert isinstance(await anext(items), AudioChunk)
            assert text.has_left


async def test_a_text_is_spoken_as_far_as_it_has_come() -> None:
    async with on_toy() as model:
        arrived = asyncio.Event()
        prompter = model.prompter
        assert isinstance(prompter, ToyPrompter)
        request = SpeechRequest("la ", sampling=model.task.sampling)
        prompt, feed = prompter.open(request, model.capabilities.voices[0], 1)

        async def pieces() -> AsyncGenerator[Piece, None]:
            await arrived.wait()  # which happens once the first words have been heard
            piece = feed.push("la")
            assert piece is not None
            yield piece
            yield feed.close()

        items = [
            item
            async for item in _signalling(
                model.open(StageRequest("late", prompt), pieces()), arrived
            )
        ]
        assert items[-1] == Ended("stop")
        chunks = [item for item in items if isinstance(item, AudioChunk)]
        assert sum(chunk.num_frames for chunk in chunks) == 2 * len("la la")


@pytest.mark.parametrize("is_colocated", [True, False])
async def test_a_stream_is_resumed_at_any_frame_by_another_replica(is_colocated: bool) -> None:
    settings = ModelSettings(source="toy", device="cpu", max_slots=2)
    split = settings.model_copy(update={"decoder_device": "cpu"})
    apart = await SpeechModel.load(split)
    model = await SpeechModel.load(settings if is_colocated else split)
    request = SpeechRequest("la la la la", sampling=model.task.sampling)
    prompt = model.prompter.build(request, model.capabilities.voices[0], 1)
    talker = apart._stages.handles[0]
    items = [item async for item in apart.fabric.open(talker, StageRequest("talk", prompt))]
    frames = tuple(item.frame for item in items if isinstance(item, FrameReady))
    whole = await _samples(model, StageRequest("whole", prompt))
    for num_made in (1, len(frames) // 2, len(frames) - 1, len(frames)):
        resumed = StageRequest("resumed", prompt, resume_frames=frames[:num_made])
        begins = num_made * len(whole) // len(frames)
        assert np.array_equal(await _samples(model, resumed), whole[begins:])
    await apart.close()
    await model.close()


@pytest.mark.parametrize("decoder_device", [None, "cpu"])
async def test_settings_say_how_large_chunks_are_and_change_no_sample(
    decoder_device: str | None,
) -> None:
    settings = ModelSettings(source="toy", device="cpu", decoder_device=decoder_device)
    small = {"codec_chunk_frames": 2, "initial_codec_chunk_frames": 2}
    chunked = await SpeechModel.load(settings.model_copy(update=small))
    model = await SpeechModel.load(settings)
    request = SpeechRequest("la la la la la", sampling=model.task.sampling)
    prompt = model.prompter.build(request, model.capabilities.voices[0], 1)
    of_two = [item async for item in chunked.open(StageRequest("small", prompt))]
    sizes = [item.num_frames for item in of_two if isinstance(item, AudioChunk)]
    assert sizes[0] == 2
    assert max(sizes) == 2
    small_samples = await _samples(chunked, StageRequest("again", prompt))
    assert np.array_equal(small_samples, await _samples(model, StageRequest("all", prompt)))
    await chunked.close()
    await model.close()


@pytest.mark.parametrize("decoder_device", [None, "cpu"])
async def test_admission_is_told_first_and_changes_no_sample(decoder_device: str | None) -> None:
    settings = ModelSettings(
        source="toy", device="cpu", decoder_device=decoder_device, max_slots=1, max_waiting=0
    )
    model = await SpeechModel.load(settings)
    request = SpeechRequest("la la la", sampling=model.task.sampling)
    prompt = model.prompter.build(request, model.capabilities.voices[0], 1)
    samples = await _samples(model, StageRequest("untold", prompt))
    told = StageRequest("told", prompt, tells_admission=True)
    async with aclosing(model.open(told)) as items:
        assert await anext(items) == Admitted()
        with pytest.raises(OverloadedError):
            await anext(model.open(replace(told, id="refused")))
        admitted = replace(told, id="admitted before", is_later=True)
        first, *rest = [item async for item in model.open(admitted)]
        assert first == Admitted()
        assert np.array_equal(_joined(rest), samples)
        assert np.array_equal(_joined([item async for item in items]), samples)
    assert model.fabric.num_open == 0
    await model.close()


async def _samples(model: SpeechModel, request: StageRequest) -> Samples:
    return _joined([item async for item in model.open(request)])


def _joined(items: Sequence[StageItem]) -> Samples:
    """Return the samples of a stream's items, of which none is left out but the end."""
    *chunks, ended = items
    assert ended == Ended("stop")
    assert all(isinstance(each, AudioChunk) for each in chunks)
    samples = [each.samples for each in chunks if isinstance(each, AudioChunk)]
    return np.concatenate([np.zeros(0, np.float32), *samples])


async def _signalling(stream: StageStream, heard: asyncio.Event) -> StageStream:
    async with aclosing(stream):
        async for item in stream:
            heard.set()
            yield item


@asynccontextmanager
async def apart() -> AsyncGenerator[SpeechModel, None]:
    """Give the toy, whose codec is a stage of its own."""
    settings = ModelSettings(source="toy", device="cpu", decoder_device="cpu", max_slots=2)
    model = await SpeechModel.load(settings)
    try:
        yield model
        assert model.fabric.num_open == 0
    finally:
        await model.close()


def whole(
    model: SpeechModel, text: str, *, name: str = "whole", is_live: bool = True
) -> StageStream:
    request = SpeechRequest(text, sampling=model.task.sampling)
    prompt = model.prompter.build(request, model.capabilities.voices[0], 1)
    return model.open(StageRequest(name, prompt))


async def test_a_listener_who_does_not_read_holds_both_stages_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = {"frames": 0}
    next_frame = ToyRunner.next_frame

    def counted(runner: ToyRunner, state: Any) -> Any:
        made["frames"] += 1
        return next_frame(runner, state)

    monkeypatch.setattr(ToyRunner, "next_frame", counted)
    async with apart() as model, aclosing(whole(model, "la " * 300)) as items:
        await anext(items)
        for number in range(5):  # others are served meanwhile
            async with aclosing(whole(model, "la " * 10, name=f"other{number}")) as others:
                assert [item async for item in others][-1] == Ended("stop")
        assert 1 < made["frames"] < 5 * 61 + 3 * 128 + 10
        *_, end = [item async for item in items]
        assert end == Ended("stop")
    assert made["frames"] >= 2 * len("la " * 300)


async def test_a_limit_that_the_first_stage_meets_is_the_reason_at_the_end() -> None:
    async with apart() as model:
        sampling = replace(model.task.sampling, max_frames=7)
        request = SpeechRequest("la la la", sampling=sampling)
        prompt = model.prompter.build(request, model.capabilities.voices[0], 1)
        items = [item async for item in model.open(StageRequest("short", prompt))]
        assert items[-1] == Ended("length")
        assert sum(each.num_frames for each in items if isinstance(each, AudioChunk)) == 7


@pytest.mark.parametrize("index", [0, 1], ids=["first", "codec"])
async def test_a_request_that_is_aborted_at_one_stage_ends_at_both(index: int) -> None:
    async with apart() as model, model._pool.held(model._stages) as handles:
        async with aclosing(whole(model, "la " * 300)) as items:
            assert isinstance(await anext(items), AudioChunk)
            model.fabric.abort(handles[index], "whole")
            *_, end = [item async for item in items]
        assert end == Ended("abort")
        assert all(model.fabric.status(each).num_open == 0 for each in handles)


@pytest.mark.parametrize(
    ("owner", "method"), [(ToyRunner, "next_frame"), (ToneCodec, "decode_row")]
)
async def test_a_stage_that_fails_ends_the_request_at_both(
    owner: type, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = vars(owner)[method]
    calls = {"number": 0}

    def broken(*args: Any) -> Any:
        calls["number"] += 1
        if calls["number"] > 5:
            raise ValueError("broken on purpose")
        return original(*args)

    monkeypatch.setattr(owner, method, broken)
    async with apart() as model:
        with pytest.raises(EngineError, match="failed"):
            [item async for item in whole(model, "la " * 300)]
        await until(lambda: model.status.failure is not None)
        assert model.fabric.num_open == 0


def test_a_task_uses_the_engine_of_another_that_begins_with_its_stage() -> None:
    def spec(name: str, kind: StageKind, made: ItemKind) -> StageSpec:
        return StageSpec(name, kind, ItemKind.FRAMES, made, Ref("nobody:nothing"))

    model = spec("model", StageKind.AUTOREGRESSIVE, ItemKind.FRAMES)
    codec = spec("codec", StageKind.DECODER, ItemKind.AUDIO)
    other = spec("other", StageKind.AUTOREGRESSIVE, ItemKind.TOKENS)
    pipelines = {"speech": (model, codec), "chat": (model,), "apart": (other,)}
    for is_colocated in (True, False):
        chains = {
            name: engine_groups(each, is_colocated=is_colocated) for name, each in pipelines.items()
        }
        shared = shared_engines(chains)
        assert shared["speech"] == chains["speech"]
        assert shared["chat"] == chains["speech"][:1]
        assert shared["apart"] == ((other,),)
