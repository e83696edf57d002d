"""The driver of stages whose models own their loop."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace

from antiphon.concurrency import cancel_and_wait, num_usable_cores
from antiphon.contracts.family import LoadContext, StageSpec
from antiphon.contracts.picture_types import Image
from antiphon.contracts.prompt import Admitted, StageGenerator
from antiphon.contracts.types import Ended, Latents
from antiphon.engine.admission import Reservations
from antiphon.engine.generator_engine import GeneratorEngine
from antiphon.stages.base import StageItem, StageRequest, StageStream
from antiphon.stages.upstream import PromptStage, consumed
from antiphon.telemetry.stage_status import Publish


class GeneratorStage(PromptStage):
    """Pulls generators item by item, by their listeners' clocks.

    If the stage declares a limit of concurrency, further requests wait in order of arrival until
    one has been made, or are refused if too many wait. A request under way is worked on without
    regard to its reader.

    Behind another stage the generator is called once for each `Latents` of that, whose progress is
    handed on. What it makes of a preview is one.
    """

    def __init__(
        self, generator: StageGenerator, spec: StageSpec, context: LoadContext, publish: Publish
    ) -> None:
        super().__init__()
        limit = spec.max_concurrency
        self._limits = context.admission
        self._engine: GeneratorEngine = GeneratorEngine(
            generator,
            name=spec.name,
            num_threads=limit and min(limit, num_usable_cores()),
            max_streams=min(limit or context.max_slots, context.max_slots),
            limits=self._limits,
            publish=publish,
        )
        self._turns = None if limit is None else asyncio.Semaphore(limit)
        self._num_waiting = 0
        self._reserved = Reservations()

    def open(self, request: StageRequest, upstream: StageStream | None) -> StageStream:
        if request.is_reservation:
            if upstream is not None:
                return upstream  # it admits for all
            if self._turns is not None:
                return self._reserve_turn(request)
            stream_id = request.stream_id or request.id
            return self._engine.reserve(stream_id, is_live=request.is_live, speed=request.speed)
        if upstream is not None:
            return self._generate_of_each(request, upstream)
        return self._open(request)

    async def _reserve_turn(self, request: StageRequest) -> AsyncGenerator[StageItem, None]:
        """Keep room for a stream, which waits for a turn with the others."""
        stream_id = request.stream_id or request.id
        self._check_turn(request)
        self._reserved.add(stream_id, is_live=request.is_live)
        try:
            yield Admitted()
            await asyncio.Event().wait()
        finally:
            self._reserved.remove(stream_id)

    def _check_turn(self, request: StageRequest) -> None:
        """Raise `OverloadedError` if too many wait for a turn."""
        assert self._turns is not None
        num_reserved = self._reserved.count(is_live=request.is_live)
        if self._turns.locked() or num_reserved:
            num_waiting = self._num_waiting + num_reserved
            self._limits.check(num_waiting, 0.0, is_live=request.is_live)

    def _open(self, request: StageRequest) -> StageStream:
        if self._turns is None:
            return self._generate(request)
        return self._generate_in_turn(request, self._turns)

    async def _generate_of_each(
        self, request: StageRequest, upstream: StageStream
    ) -> AsyncGenerator[StageItem, None]:
        """Stream what is made of each of upstream's items; the reason of the end is upstream's."""
        with self._opened(request.id) as aborted:
            async with aclosing(consumed(upstream, aborted)) as items:
                async for item in items:
                    if not isinstance(item, Latents):
                        yield item
                        continue
                    prompt = replace(request.prompt, conditioning=item)
                    # It was admitted with what is upstream.
                    part = replace(request, prompt=prompt, is_later=True)
                    async with aclosing(self._open(part)) as made:
                        async for each in made:
                            if isinstance(each, Ended):
                                if each.reason == "abort":
                                    yield each
                                    return
                            elif isinstance(each, Image | Latents):
                                yield replace(each, preview_index=item.preview_index)
                            else:
                                yield each

    async def _generate_in_turn(
        self, request: StageRequest, turns: asyncio.Semaphore
    ) -> AsyncGenerator[StageItem, None]:
        if not request.is_later:
            self._check_turn(request)
        self._reserved.remove(request.stream_id or request.id)
        self._num_waiting += 1
        try:
            await turns.acquire()
        finally:
            self._num_waiting -= 1
        made: asyncio.Queue[StageItem | None] = asyncio.Queue()
        making = asyncio.create_task(self._make_all(request, turns, made))
        try:
            while (item := await made.get()) is not None:
                yield item
            await making  # raises what ended it
        finally:
            await cancel_and_wait(making)

    async def _make_all(
        self,
        request: StageRequest,
        turns: asyncio.Semaphore,
        made: "asyncio.Queue[StageItem | None]",
    ) -> None:
        """Make a prompt's items as fast as can be, then give the turn away.

        Otherwise a listener who reads slowly, or not at all, would keep all others waiting. What is
        made ahead is one prompt's, which is one segment of a text.
        """
        try:
            async with aclosing(self._generate(request)) as items:
                async for item in items:
                    made.put_nowait(item)
        finally:
            turns.release()
            made.put_nowait(None)

    def _generate(self, request: StageRequest) -> StageStream:
        return self._engine.generate(
            request.id,
            request.prompt,
            stream_id=request.stream_id,
            is_live=request.is_live,
            is_later=request.is_later,
            speed=request.speed,
        )

    def abort(self, request_id: str) -> None:
        super().abort(request_id)
        self._engine.abort(request_id)
