"""Planning of codec chunks for decoders that need less time for a chunk in a batch of streams."""

from collections.abc import Iterable
from math import inf

from antiphon.engine.chunk_planner import DEADLINE_S, LookAheadChunks
from antiphon.engine.plan import CodecChunk
from antiphon.engine.request import EngineRequest

_BATCH_SHARE = 0.5  # of comfort_s, that the batch of a step may take
_SOON_FRAMES = 2  # until a first chunk is complete, for which other first chunks wait


class BatchedChunks(LookAheadChunks):
    """Decodes at most one batch in a step, so that first audio comes batch by batch.

    A batch that is not full waits for more chunks, as long as no stream needs audio and not all
    streams of the step are in it. A full one waits too while a stream lacks frames for its first.
    """

    _num_lacking: float = inf
    """Fewest frames that a running stream lacks for its first chunk."""

    def plan(
        self, requests: Iterable[EngineRequest], num_frames: int, now_s: float
    ) -> list[tuple[EngineRequest, CodecChunk]]:
        requests = list(requests)
        new = [each for each in requests if each.may_run and self.is_first_audio_due(each)]
        lacking = (each.codec.chunk_frames - self._num_ready(each) for each in new)
        self._num_lacking = min((each for each in lacking if each > 0), default=inf)
        return super().plan(requests, num_frames, now_s)

    def select(
        self, due: list[EngineRequest], partial: list[EngineRequest], num_frames: int, now_s: float
    ) -> list[EngineRequest]:
        comfort_s = self._policy.comfort_s
        num_timely = self._costs.codec_frames_within(_BATCH_SHARE * comfort_s) // self._sizes[0]
        size = max(1, min(self._codec.batch_chunks, num_timely))
        firsts = [each for each in due if self.is_first_audio_due(each)]
        others = sorted((each for each in due if each not in firsts), key=DEADLINE_S)
        num_urgent = sum(each.clock.deadline_s < now_s + comfort_s for each in others)
        can_wait = num_frames and not num_urgent and not self._codec.has_upstream
        if firsts and not num_urgent:
            is_soon = can_wait and self._num_lacking <= _SOON_FRAMES and len(firsts) < size
            return (partial if is_soon else [*partial, *firsts])[:size]
        enough = min(size, num_frames) if self._num_lacking == inf else num_frames
        if can_wait and len(due) < enough:
            return partial[:size]
        return [*partial, *others[:num_urgent], *firsts, *others[num_urgent:]][:size]

    def _is_due(self, request: EngineRequest) -> bool:
        is_end = self._is_end_planned(request) and self._num_ready(request) > 0
        return is_end or super()._is_due(request)

    def _partial_due_s(self, request: EngineRequest) -> float:
        return -inf if self._is_due(request) else super()._partial_due_s(request)
