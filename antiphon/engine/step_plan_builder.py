"""A step plan in the making."""

from dataclasses import dataclass, field

from antiphon.engine.plan import (
    Append,
    BlockCopy,
    CodecChunk,
    CodecReplay,
    Prefill,
    Start,
    StepPlan,
)
from antiphon.engine.request import EngineRequest, slot_of


@dataclass(slots=True)
class StepPlanBuilder:
    """A `StepPlan` in the making.

    Attributes:
        now_s: time at which planning began.
        copies: block copies by target slot.
        rows: requests that make a frame.
        decoding: requests of ``codec_chunks``, in the same order.
    """

    now_s: float
    releases: list[int] = field(default_factory=list)
    starts: list[Start] = field(default_factory=list)
    appends: list[Append] = field(default_factory=list)
    blocks: dict[int, tuple[int, ...]] = field(default_factory=dict)
    copies: dict[int, BlockCopy] = field(default_factory=dict)
    prefills: list[Prefill] = field(default_factory=list)
    rows: list[EngineRequest] = field(default_factory=list)
    codec_chunks: list[CodecChunk] = field(default_factory=list)
    codec_replays: list[CodecReplay] = field(default_factory=list)
    decoding: list[EngineRequest] = field(default_factory=list)

    def drop(self, request: EngineRequest) -> None:
        """Remove a request that was to make a frame."""
        self.blocks.pop(slot_of(request), None)
        self.copies.pop(slot_of(request), None)
        if request in self.rows:
            self.rows.remove(request)

    def build(self) -> StepPlan:
        return StepPlan(
            tuple(self.releases),
            tuple(self.starts),
            tuple(self.appends),
            self.blocks,
            tuple(self.prefills),
            tuple([slot_of(request) for request in self.rows]),
            tuple(self.codec_chunks),
            tuple(self.codec_replays),
            tuple(self.copies.values()),
        )
