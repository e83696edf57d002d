"""A stage that says how many objects of its process no collection goes over."""

import gc
from collections.abc import Sequence

from antiphon.errors import OverloadedError
from antiphon.fabric.base import StageRequest, StageStream
from antiphon.models.base import Piece
from antiphon.models.spec import LoadContext, StageSpec
from antiphon.telemetry.stage_status import Publish


class HeapStage:
    """Refuses all, until as many seconds are over as there are such objects."""

    async def open(self, request: StageRequest, upstream: StageStream | None) -> StageStream:
        raise OverloadedError("full", retry_after_s=float(gc.get_freeze_count()))
        yield

    def append(self, request_id: str, piece: Piece) -> None:
        raise AssertionError

    def abort(self, request_id: str) -> None:
        raise AssertionError

    async def close(self) -> None:
        """Nothing to free."""


def build_stage(specs: Sequence[StageSpec], context: LoadContext, publish: Publish) -> HeapStage:
    """Build one, for any model."""
    return HeapStage()
