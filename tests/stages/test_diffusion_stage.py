"""Text encoder, denoiser and decoder as stages: what crosses them, and who closes whom."""

import asyncio
import gc
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from antiphon.contracts.engine_limits import AdmissionLimits
from antiphon.contracts.family import ItemKind, LoadContext, Ref, StageKind, StageSpec
from antiphon.contracts.picture_types import Image, ImageRequest, Progress
from antiphon.contracts.prompt import Admitted, GeneratorItem, Prompt
from antiphon.contracts.types import Ended, Latents
from antiphon.errors import EngineError, InvalidRequestError, OverloadedError
from antiphon.fabric.base import Placement
from antiphon.fabric.local import LocalFabric
from antiphon.fabric.wire.stage_client import StageConnection, remote_handle
from antiphon.fabric.wire.stage_server import StageServer
from antiphon.families.registry import resolve
from antiphon.stages.base import StageHandle, StageItem, StageRequest
from antiphon.stages.build import build_stage
from tests.diffusion.denoisers import DEADLINE_S, StubDenoiser, Task, prompt

TOY = resolve("toy")[0].tasks["image"]
CONTEXT = LoadContext(device="cpu")
TOKEN = "token of the tests"
TEXT, LATENTS = ItemKind.TEXT, ItemKind.LATENTS

denoisers: list[StubDenoiser] = []
"""Those that were loaded; the last one is the test's own."""


class Encoder:
    """Encodes a prompt as its seed; some prompts it refuses, or has much to tell of.

    Attributes:
        num_encoded: prompts, of all instances.
    """

    num_encoded = 0

    def __init__(self, context: LoadContext) -> None:
        """Nothing to load."""

    def generate(self, prompt: Prompt) -> Generator[GeneratorItem, None, None]:
        Encoder.num_encoded += 1
        if prompt.seed == 13:
            raise InvalidRequestError("This is no prompt.", param="prompt")
        yield Progress(1, 1)
        if prompt.seed != 14:
            yield Latents([float(prompt.seed)] * 3)

    def close(self) -> None:
        """Nothing to free."""


class Decoder:
    """Decodes latents into their own values."""

    def __init__(self, context: LoadContext) -> None:
        """Nothing to load."""

    def generate(self, prompt: Prompt) -> Generator[GeneratorItem, None, None]:
        if prompt.conditioning.preview_index is None:
            yield Progress(1, 1)
        yield Latents(tuple(prompt.conditioning.data))

    def close(self) -> None:
        """Nothing to free."""


def load_denoiser(context: LoadContext) -> StubDenoiser:
    denoisers.append(StubDenoiser())
    return denoisers[-1]


def spec(name: str, kind: StageKind, consumes: ItemKind, factory: str) -> StageSpec:
    return StageSpec(name, kind, consumes, LATENTS, Ref(f"{__name__}:{factory}"))


STAGES = (
    spec("encoder", StageKind.GENERATOR, TEXT, "Encoder"),
    spec("denoiser", StageKind.DIFFUSION, LATENTS, "load_denoiser"),
    spec("decoder", StageKind.GENERATOR, LATENTS, "Decoder"),
)


class Chain:
    """Stages of a fabric, one after another."""

    def __init__(self, fabric: LocalFabric, handles: Sequence[StageHandle]) -> None:
        self.fabric = fabric
        self.handles = handles

    @classmethod
    async def hosted(cls, specs: Sequence[StageSpec], context: LoadContext) -> "Chain":
        fabric = LocalFabric(build_stage)
        return cls(fabric, [await fabric.host([each], context, Placement()) for each in specs])

    def open(self, request: StageRequest) -> AsyncGenerator[StageItem, None]:
        *before, last = self.handles
        return self.fabric.open(last, replace(request, upstream=tuple(before)))

    async def items(self, what: Prompt, id: str = "") -> list[StageItem]:
        async with aclosing(self.open(StageRequest(id or f"{what.seed}", what))) as items:
            return [item async for item in items]

    async def close(self) -> None:
        for handle in self.handles:
            assert self.fabric.status(handle).num_open == 0
            await self.fabric.release(handle)


async def test_items_pass_through_all_stages_in_order() -> None:
    chain = await Chain.hosted(STAGES, CONTEXT)
    items = await chain.items(prompt(1, Task(num_steps=4, previews=(2,))))
    latents = [item.preview_index for item in items if isinstance(item, Latents)]
    assert latents == [0, None]
    progress = [item for item in items if isinstance(item, Progress)]
    assert progress[0] == progress[-1] == Progress(1, 1), "the encoder's, and the decoder's"
    assert progress[-2] == Progress(4, 4)
    assert [item for item in items if isinstance(item, Ended)] == [items[-1]] == [Ended("stop")]
    await chain.close()


async def test_a_chain_may_begin_with_a_denoiser() -> None:
    chain = await Chain.hosted(STAGES[1:], CONTEXT)
    *_, latents, ended = await chain.items(prompt(1))
    assert isinstance(latents, Latents)
    assert ended == Ended("stop")
    await chain.close()


@pytest.mark.parametrize("seed", [13, 14])
async def test_what_the_stage_before_refuses_or_leaves_out_is_told(seed: int) -> None:
    chain = await Chain.hosted(STAGES, CONTEXT)
    with pytest.raises(InvalidRequestError if seed == 13 else EngineError) as caught:
        await chain.items(prompt(seed))
    assert isinstance(caught.value, InvalidRequestError) == (seed == 13)
    assert (await chain.items(prompt(1)))[-1] == Ended("stop")
    await chain.close()


async def test_a_request_that_is_refused_has_cost_nothing() -> None:
    context = replace(CONTEXT, admission=AdmissionLimits(max_waiting=0))
    chain = await Chain.hosted(STAGES, context)
    denoisers[-1].may_step.clear()
    size = denoisers[-1].max_batch
    several = [asyncio.create_task(chain.items(prompt(seed))) for seed in range(size)]
    while chain.fabric.status(chain.handles[1]).num_open < size:
        await asyncio.sleep(0)
    before = Encoder.num_encoded
    with pytest.raises(OverloadedError) as caught:
        await chain.items(prompt(9))
    assert caught.value.retry_after_s is not None
    denoisers[-1].may_step.set()
    await asyncio.gather(*several)
    assert Encoder.num_encoded <= before + size, "one for each that was admitted"
    assert 9 not in denoisers[-1].states
    await chain.close()


async def test_admission_is_told_while_a_request_still_waits() -> None:
    chain = await Chain.hosted(STAGES, replace(CONTEXT, max_slots=1))
    denoisers[-1].may_step.clear()
    begun = asyncio.create_task(chain.items(prompt(1)))
    assert await asyncio.to_thread(denoisers[-1].is_stepping.wait, DEADLINE_S)
    waiting = StageRequest("w", prompt(2), tells_admission=True)
    async with aclosing(chain.open(waiting)) as items:
        assert await anext(items) == Admitted()
        assert 2 not in denoisers[-1].states
        denoisers[-1].may_step.set()
        rest = [item async for item in items]
    assert Admitted() not in rest
    assert rest[-1] == (await begun)[-1] == Ended("stop")
    await chain.close()


@pytest.mark.parametrize("stage", [0, 1, 2])
async def test_an_abort_at_any_stage_ends_the_stream_and_frees_all(stage: int) -> None:
    chain = await Chain.hosted(STAGES, CONTEXT)
    async with aclosing(chain.open(StageRequest("r", prompt(1, Task(num_steps=100_000))))) as items:
        assert await anext(items) == Progress(1, 1)
        if stage:  # the encoder has ended by then
            assert isinstance(await anext(items), Progress)
        chain.fabric.abort(chain.handles[stage], "r")
        assert [item async for item in items][-1] == Ended("abort")
    assert chain.fabric.num_open == 0
    await chain.items(prompt(2))
    gc.collect()
    begun = denoisers[-1].states.get(1)
    assert (begun is None) == (stage == 0)
    assert begun is None or begun() is None
    await chain.close()


async def test_whoever_leaves_within_a_step_frees_all_stages() -> None:
    chain = await Chain.hosted(STAGES, CONTEXT)
    denoiser = denoisers[-1]
    denoiser.may_step.clear()
    leaving = asyncio.create_task(chain.items(prompt(1, Task(num_steps=1000))))
    assert await asyncio.to_thread(denoiser.is_stepping.wait, DEADLINE_S)
    leaving.cancel()
    await asyncio.wait([leaving])
    assert chain.fabric.num_open == 0
    denoiser.may_step.set()
    await chain.items(prompt(2))
    gc.collect()
    assert denoiser.states[1]() is None
    assert sum(1 in batch for batch in denoiser.batches) == 1
    await chain.close()


def pixels(items: Sequence[StageItem]) -> NDArray[np.uint8]:
    image = items[-2]
    assert isinstance(image, Image)
    return image.pixels


def toy_prompts() -> list[Prompt]:
    prompter = TOY.prompter.resolve()(CONTEXT)
    sizes = [(32, 32), (64, 16), (32, 32), (32, 32), (24, 24)]
    return [
        prompter.build(
            ImageRequest(f"number {seed}", width=width, height=height, num_previews=seed % 2), seed
        )
        for seed, (width, height) in enumerate(sizes)
    ]


async def test_a_picture_in_company_is_what_it_is_alone() -> None:
    chain = await Chain.hosted(TOY.pipeline, CONTEXT)
    crowd = await asyncio.gather(*map(chain.items, toy_prompts()))
    for items, what in zip(crowd, toy_prompts(), strict=True):
        np.testing.assert_array_equal(pixels(items), pixels(await chain.items(what)))
    await chain.close()


@pytest.mark.parametrize("places", ["abc", "aba"], ids=["apart", "the first with the last"])
async def test_stages_of_other_processes_make_the_same_picture(tmp_path: Path, places: str) -> None:
    """Each place behind a connection of its own: all that crosses processes is pickled."""

    def kept(items: Sequence[StageItem]) -> list[Image]:
        return [item for item in items if isinstance(item, Image)]

    local = await Chain.hosted(TOY.pipeline, CONTEXT)
    async with AsyncExitStack() as stack:
        upstream: list[StageHandle] = []
        connections: dict[str, tuple[str, StageConnection]] = {}
        for spec, place in zip(TOY.pipeline, places, strict=True):
            if place not in connections:
                server = StageServer(LocalFabric(build_stage), TOKEN)
                address = await server.serve(f"unix:{tmp_path}/{place}/s")
                connection = await StageConnection.connect(address, TOKEN)
                stack.push_async_callback(server.close)
                stack.callback(connection.close)
                connections[place] = address, connection
            address, connection = connections[place]
            stage = await connection.host([spec], CONTEXT)
            upstream.append(remote_handle(address, stage))
        before = tuple(upstream[:-1])
        for what in toy_prompts():
            request = StageRequest(f"{what.seed}", what, upstream=before)
            async with aclosing(connection.open(stage, request)) as stream:
                items = [item async for item in stream]
            expected = await local.items(what)
            for item, other in zip(*map(kept, (items, expected)), strict=True):
                assert item.preview_index == other.preview_index
                np.testing.assert_array_equal(item.pixels, other.pixels, strict=True)
            assert items[-1] == expected[-1] == Ended("stop")
    await local.close()
