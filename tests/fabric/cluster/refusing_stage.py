"""Stages that refuse all: of a test's own process, and of others, which say how their heap is."""

import gc
import os
from collections.abc import Sequence
from pathlib import Path

from antiphon.contracts.family import LoadContext, StageSpec
from antiphon.contracts.prompt import Piece
from antiphon.errors import ModelLoadError, OverloadedError
from antiphon.stages.base import StageRequest, StageStream
from antiphon.telemetry.stage_status import Publish


class RefusingStage:
    """Refuses until some seconds are over."""

    def __init__(self, retry_after_s: float) -> None:
        self._retry_after_s = retry_after_s
        self.is_closed = False

    async def open(self, request: StageRequest, upstream: StageStream | None) -> StageStream:
        raise OverloadedError("full", retry_after_s=self.retry_after_s())
        yield

    def retry_after_s(self) -> float:
        return self._retry_after_s

    def append(self, request_id: str, piece: Piece) -> None:
        raise AssertionError

    def abort(self, request_id: str) -> None:
        raise AssertionError

    async def close(self) -> None:
        self.is_closed = True


class HeapStage(RefusingStage):
    """The seconds are how many objects of its process no collection goes over."""

    def retry_after_s(self) -> float:
        return float(gc.get_freeze_count())


def build_heap_stage(
    specs: Sequence[StageSpec], context: LoadContext, publish: Publish
) -> HeapStage:
    return HeapStage(0.0)


LOADED_FILE = "ANTIPHON_TEST_LOADED_FILE"
"""Variable with the path of the file that `build_once` creates."""


def build_once(specs: Sequence[StageSpec], context: LoadContext, publish: Publish) -> RefusingStage:
    """Build a stage of any model, the first time only."""
    loaded = Path(os.environ[LOADED_FILE])
    if loaded.exists():
        raise ModelLoadError("loaded once before")
    loaded.touch()
    return RefusingStage(0.0)
