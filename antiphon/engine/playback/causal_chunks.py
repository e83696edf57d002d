"""Codec chunks of causal codecs: each frame's audio depends on earlier frames alone."""

from collections.abc import Sequence

from antiphon.contracts.engine_limits import PlaybackPolicy
from antiphon.engine.cost_model import CostModel
from antiphon.engine.plan import CodecShape
from antiphon.engine.playback.chunk_planner import ChunkPlanner, round_up
from antiphon.engine.request import EngineRequest

_PATIENT_FRAMES = 3  # frames of slack beyond the margin with which a stream can wait for a step


class CausalChunks(ChunkPlanner):
    """Decodes frames in the step that makes them, or in the one after it.

    One codec pass over the frames of two steps is shorter than two passes. If it is much shorter
    and no stream is near its deadline, every other step leaves its chunks to the next one.
    """

    def __init__(self, codec: CodecShape, policy: PlaybackPolicy, costs: CostModel) -> None:
        super().__init__(codec, policy, costs)
        # Of the step before: whether it decoded, and the frames that it made if it left that to
        # this one.
        self._has_decoded, self._num_deferred_frames = False, 0

    def _num_ready(self, request: EngineRequest) -> int:
        return request.num_frames_undecoded

    def _is_end_planned(self, request: EngineRequest) -> bool:
        return request.is_last_frame_planned

    def _end(self, request: EngineRequest) -> None:
        return None  # audio past the end is cut off by `deliver`

    def _choose(
        self,
        due: Sequence[EngineRequest],
        partial: Sequence[EngineRequest],
        num_frames: int,
        now_s: float,
        *,
        is_urgent: bool,
    ) -> list[EngineRequest]:
        if not is_urgent and self._has_decoded and self._may_defer(due, num_frames, now_s):
            for request in due:
                size = round_up(request.codec.chunk_frames + 1, self._sizes)
                if size <= request.num_frames_undecoded + 1:
                    request.codec.chunk_frames = size
            self._has_decoded, self._num_deferred_frames = False, num_frames
            return []
        num_frames += self._num_deferred_frames
        chosen = super()._choose(due, partial, num_frames, now_s, is_urgent=is_urgent)
        self._has_decoded, self._num_deferred_frames = bool(chosen), 0
        return chosen

    def _may_defer(self, due: Sequence[EngineRequest], num_frames: int, now_s: float) -> bool:
        """Whether chunks may be left to the next step, and that is worth it."""
        if self._codec.has_upstream:
            return False  # the next step may be far off
        apart_s = 2 * self._costs.codec_s(num_frames)
        together_s = self._costs.codec_s(2 * num_frames)
        if num_frames == 0 or apart_s - together_s <= self._policy.worth * apart_s:
            return False
        patient_s = now_s + self._policy.margin_s + _PATIENT_FRAMES * self._costs.long_frame_s
        return not any(
            self.is_first_audio_due(request) or request.clock.deadline_s < patient_s
            for request in due
        )
