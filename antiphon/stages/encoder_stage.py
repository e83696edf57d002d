"""The driver of encoders that take several requests' data at a time."""

import asyncio
from collections.abc import AsyncGenerator

from antiphon.concurrency import cancel_and_wait
from antiphon.contracts.engine_limits import AdmissionLimits
from antiphon.contracts.family import LoadContext, StageSpec
from antiphon.contracts.prompt import BatchEncoder, Piece
from antiphon.contracts.types import Ended
from antiphon.engine.encoder_engine import EncoderEngine
from antiphon.stages.base import StageItem, StageRequest, StageStream
from antiphon.stages.upstream import OpenRequests
from antiphon.telemetry.stage_status import Publish


class EncoderStage:
    """Encodes the data of prompts, each in a batch with what else waits; makes one `Latents`."""

    def __init__(
        self, encoder: BatchEncoder, spec: StageSpec, context: LoadContext, publish: Publish
    ) -> None:
        self._engine = EncoderEngine(
            encoder,
            name=spec.name,
            capacity=min(spec.max_concurrency or context.max_slots, context.max_slots),
            limits=context.admission or AdmissionLimits(),
            publish=publish,
        )
        self._requests = OpenRequests()

    def open(self, request: StageRequest, upstream: StageStream | None) -> StageStream:
        assert upstream is None, "an encoder is the first stage"
        return self._encode(request)

    async def _encode(self, request: StageRequest) -> AsyncGenerator[StageItem, None]:
        with self._requests.opened(request.id) as aborted:
            is_aborted = asyncio.ensure_future(aborted.wait())
            encoding = asyncio.ensure_future(
                self._engine.encode(
                    request.prompt.data, is_live=request.is_live, is_later=request.is_later
                )
            )
            try:
                await asyncio.wait((is_aborted, encoding), return_when=asyncio.FIRST_COMPLETED)
                if is_aborted.done():
                    yield Ended("abort")
                    return
                yield encoding.result()
            finally:
                await cancel_and_wait(is_aborted, encoding)
                del encoding  # the traceback of its error refers to this frame
        yield Ended("stop")

    def append(self, request_id: str, piece: Piece) -> None:
        raise AssertionError("an encoder's data is complete when it begins")

    def abort(self, request_id: str) -> None:
        self._requests.abort(request_id)

    async def close(self) -> None:
        await self._engine.close()
