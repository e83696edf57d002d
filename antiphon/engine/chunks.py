"""Which frames become audio in a step: chunks that grow with what the listener has in hand."""

from collections.abc import Iterable
from math import inf

from antiphon.engine.cost_model import CostModel
from antiphon.engine.plan import CodecChunk, CodecShape
from antiphon.engine.request import EngineRequest, Status, slot_of
from antiphon.engine.scheduling_policy import PlaybackPolicy, heard_until_s, round_down, round_up
from antiphon.types import AudioChunk, Samples


class ChunkPlanner:
    """Plans the chunks of all requests, and keeps their deadlines."""

    def __init__(self, codec: CodecShape, policy: PlaybackPolicy, times: CostModel) -> None:
        self._codec = codec
        self._policy = policy
        self._times = times
        self._sizes = policy.chunk_sizes(codec)

    def enter(self, request: EngineRequest) -> None:
        """Choose the size of a new request's first chunk."""
        wanted = request.prompt.first_chunk_frames
        if wanted is None and not request.is_live:
            wanted = self._sizes[-1]
        request.chunk_frames = self._policy.first_chunk_frames(
            self._codec, wanted or 1, self._times
        )

    def plan(
        self, requests: Iterable[EngineRequest], rate: float, now_s: float
    ) -> list[tuple[EngineRequest, CodecChunk]]:
        """Plan the chunks of one step.

        Args:
            requests: that hold a slot, with the frames of this step counted as planned.
            rate: chunks of whole size that this step's frames are.
            now_s: the time.
        """
        due: list[EngineRequest] = []
        rest: list[EngineRequest] = []
        hurry_s = self._policy.hurry_s(self._times, now_s)
        for request in requests:
            if request.num_frames_planned - request.num_frames_decoded >= request.chunk_frames:
                due.append(request)
            elif (request.deadline_s < hurry_s or not request.may_run) and self._has_rest(request):
                rest.append(request)
        chosen = [*self._policy.chunks_to_decode(due, rate, self._times, now_s), *rest]
        return [(request, self._decode(request, now_s)) for request in chosen]

    def is_any_due(self, requests: Iterable[EngineRequest]) -> bool:
        """Whether audio of a request that holds a slot could be planned, without a frame more."""
        return any(not each.may_run and self._has_rest(each) for each in requests)

    def cut(
        self, request: EngineRequest, decode: CodecChunk, samples: Samples, now_s: float
    ) -> AudioChunk | None:
        """Return what of a decoded chunk is audio of frames that were made; keep the clock."""
        num_frames = min(decode.num_frames, request.num_frames - decode.start)
        if num_frames <= 0:
            return None
        if request.num_frames_heard == 0 and request.is_live:
            request.deadline_s = now_s + request.num_frames_decoded * self._codec.frame_s
        request.num_frames_heard += num_frames
        samples = samples[: num_frames * self._codec.samples_per_frame]
        return AudioChunk(samples, self._codec.sample_rate_hz, num_frames)

    def _has_rest(self, request: EngineRequest) -> bool:
        """Whether one who cannot go on now has frames that its listener may hear all the same."""
        num_waiting = request.num_frames_undecoded
        is_last = request.status is Status.DRAINING or request.is_fully_planned
        return num_waiting >= (1 if is_last else self._codec.chunk_sizes[0])

    def _decode(self, request: EngineRequest, now_s: float) -> CodecChunk:
        num_waiting = request.num_frames_undecoded
        if request.status is Status.DRAINING or request.is_fully_planned:
            num_frames = round_up(num_waiting, self._sizes)
        else:
            num_waiting = min(num_waiting, request.chunk_frames)
            num_frames = round_down(num_waiting, self._codec.chunk_sizes)
        decode = CodecChunk(slot_of(request), request.num_frames_decoded, num_frames)
        request.num_frames_decoded += num_frames
        request.num_in_flight += 1
        self._set_next(request, num_frames, now_s)
        return decode

    def _set_next(self, request: EngineRequest, num_frames: int, now_s: float) -> None:
        """Move the deadline on, and choose the size of the next chunk."""
        if not request.is_live:
            return
        frame_s = self._codec.frame_s
        if request.deadline_s < inf:
            request.deadline_s = heard_until_s(request.deadline_s, now_s, num_frames * frame_s)
            slack_s = request.deadline_s - now_s
        else:
            slack_s = request.num_frames_decoded * frame_s
        request.chunk_frames = self._policy.next_chunk_frames(
            self._sizes, num_frames, slack_s, self._times.mean_step_s
        )
