"""Planning of codec chunks, for all kinds of codec."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from math import inf
from operator import attrgetter

import numpy as np

from antiphon.contracts.engine_limits import PlaybackPolicy
from antiphon.contracts.types import AudioChunk, Samples
from antiphon.engine.cost_model import CostModel
from antiphon.engine.plan import CodecChunk, CodecReplay, CodecShape
from antiphon.engine.request import EngineRequest, slot_of

DEADLINE_S = attrgetter("clock.deadline_s")
_REPLAY_SHARE = 0.5  # of a step, that replays may take
_SLOW_FRAMES = 4  # of a chunk where frames take longer than they play
_PATIENT_FRAMES = 3  # frames of slack beyond the margin with which a stream can wait for a step


class ChunkPlanner(ABC):
    """Plans the codec chunks of all requests, and keeps their playback clocks."""

    def __init__(self, codec: CodecShape, policy: PlaybackPolicy, costs: CostModel) -> None:
        self._codec = codec
        self._policy = policy
        self._costs = costs
        self._sizes = codec.chunk_sizes
        # Of the step before: whether it decoded, and its frames if it left them to this one.
        self._has_decoded, self._num_deferred_frames = False, 0

    @abstractmethod
    def _num_ready(self, request: EngineRequest) -> int:
        """Return the frames that are in no chunk and can be; negative if look-ahead is missing."""

    @abstractmethod
    def _is_end_planned(self, request: EngineRequest) -> bool:
        """Whether all frames that are still to be decoded can be."""

    def add(self, request: EngineRequest) -> None:
        """Choose the size of a first chunk: it lasts until the second one, if anything does.

        A resumed request decodes again from the last whole group whose look-ahead it has.
        """
        progress, codec = request.codec, self._codec
        progress.num_late = codec.late_frames
        num_whole = max(0, request.num_frames - codec.look_ahead_frames)
        progress.num_decoded = num_whole - num_whole % codec.group_frames
        wanted = request.prompt.first_chunk_frames or self._policy.first_frames
        if request.prompt.first_chunk_frames is None and not request.is_live:
            wanted = self._sizes[-1]
        num_steps = 0.0 if self._costs.mean_frame_s > codec.frame_s else self._policy.start
        num_needed = num_steps * self._costs.long_frame_s / codec.frame_s
        progress.chunk_frames = round_up(max(wanted, num_needed), self._sizes)

    def is_first_audio_due(self, request: EngineRequest) -> bool:
        """Whether a client waits for the first audio and none is planned yet."""
        return request.is_live and request.codec.num_decoded == 0

    def receive(self, request: EngineRequest, now_s: float) -> None:
        """Record the arrival of a frame from the stage before."""
        if request.codec.received_s > -inf:
            self._costs.observe_arrival(now_s - request.codec.received_s)
        request.codec.received_s = now_s

    def replay(self, requests: Iterable[EngineRequest], max_frames: int) -> list[CodecReplay]:
        """Plan the frames that decoders are given again in one step, nearest deadline first.

        Args:
            max_frames: limit of all requests together; it is raised to one group, and to what the
                codec decodes in half of the time that a step leaves.
        """
        largest, step_s = self._sizes[-1], self._costs.mean_step_s
        if self._costs.is_trusted:  # each of the codec's calls is for one request
            spare_s = min(step_s, self._codec.frame_s - step_s) * _REPLAY_SHARE
            num_calls = int(spare_s / self._costs.codec_s(largest))
            max_frames = max(max_frames, num_calls * largest)
        replays: list[CodecReplay] = []
        replaying = [request for request in requests if request.codec.is_replaying]
        for request in sorted(replaying, key=DEADLINE_S):
            progress = request.codec
            while progress.is_replaying and (max_frames > 0 or not replays):
                num_left = progress.num_to_replay - progress.num_replayed
                most = min(num_left, max(max_frames, self._sizes[0]))
                num_frames = round_down(most, self._sizes) or num_left
                start = progress.num_replayed
                progress.num_replayed += num_frames
                replays.append(CodecReplay(slot_of(request), start, progress.num_replayed))
                max_frames -= num_frames
        return replays

    def plan(
        self, requests: Iterable[EngineRequest], num_frames: int, now_s: float
    ) -> list[tuple[EngineRequest, CodecChunk]]:
        """Plan the chunks of a step, for requests whose frames of it count as planned."""
        due: list[EngineRequest] = []
        partial: list[EngineRequest] = []
        danger_s = now_s + self._policy.margin_s + self._costs.long_frame_s
        if self._costs.mean_frame_s > self._codec.frame_s:
            danger_s = -inf  # gaps cannot be avoided, and partial chunks make frames slower
        is_urgent = False
        for request in requests:
            if request.codec.is_replaying:
                continue
            is_in_danger = request.clock.deadline_s < danger_s
            if self._is_due(request):
                due.append(request)
            elif (is_in_danger or not request.may_run) and self._partial_due_s(request) <= now_s:
                partial.append(request)
                is_urgent |= is_in_danger
        if not is_urgent and self._has_decoded and self._defers(due, num_frames, now_s):
            self._has_decoded, self._num_deferred_frames = False, num_frames
            return []
        num_frames += self._num_deferred_frames
        chosen = self.select(due, partial, num_frames, now_s)
        self._has_decoded, self._num_deferred_frames = bool(chosen), 0
        return [(request, self._chunk(request, now_s)) for request in chosen]

    def next_due_s(self, requests: Iterable[EngineRequest]) -> float:
        """Return when a chunk can be planned without another frame; ``inf``: never."""
        times_s = (self._partial_due_s(request) for request in requests if not request.may_run)
        return min(times_s, default=inf)

    def deliver(
        self, request: EngineRequest, chunk: CodecChunk, samples: Samples, now_s: float
    ) -> AudioChunk | None:
        """Return the part of a decoded chunk whose frames exist; start the playback clock.

        ``None``: the chunk has no such part, or its audio is kept back.
        """
        progress = request.codec
        first = progress.num_delivered  # later than the chunk's if this resumed within it
        num_frames = min(chunk.start + chunk.num_frames, request.num_frames) - first
        num_decoding = progress.num_decoding
        progress.num_decoding -= chunk.num_frames
        if num_frames <= 0:
            return None
        self._start_clock(request, num_decoding, now_s)
        begin, size = first - chunk.start, self._codec.samples_per_frame
        return self._audio(request, samples[begin * size : (begin + num_frames) * size], num_frames)

    def select(
        self, due: list[EngineRequest], partial: list[EngineRequest], num_frames: int, now_s: float
    ) -> list[EngineRequest]:
        """Return the requests whose chunks this step decodes, of complete and of partial ones."""
        limit = max(self._least_frames(num_frames), num_frames * self._policy.spread)
        if sum([request.codec.chunk_frames for request in due]) <= limit:
            return [*due, *partial]
        comfortable_s = now_s + self._policy.comfort_s
        chosen: list[EngineRequest] = []
        num_chosen = 0
        for request in sorted(due, key=DEADLINE_S):
            is_urgent = self.is_first_audio_due(request) or request.clock.deadline_s < comfortable_s
            if num_chosen < limit or is_urgent:
                chosen.append(request)
                num_chosen += request.codec.chunk_frames
        return [*chosen, *partial]

    def next_chunk_frames(self, last: int, slack_s: float, step_s: float) -> int:
        """Return the size of the chunk after one of ``last`` frames, with which slack remains."""
        policy = self._policy
        if step_s > self._codec.frame_s:
            return round_up(_SLOW_FRAMES, self._sizes)
        longest = min((slack_s - policy.margin_s) / (step_s * policy.growth), last * policy.spacing)
        return max(self._sizes[0], round_down(longest, self._sizes))

    def _is_due(self, request: EngineRequest) -> bool:
        """Whether a request has the frames of its next chunk."""
        return self._num_ready(request) >= request.codec.chunk_frames

    def _defers(self, due: Sequence[EngineRequest], num_frames: int, now_s: float) -> bool:
        """Whether the chunks of a step are left to the next one."""
        return False

    def _least_frames(self, num_made: int) -> int:
        """Return how many frames a step that makes ``num_made`` may decode, however few."""
        costs, policy = self._costs, self._policy
        least_s = policy.least * costs.codec_s(1) if num_made else policy.idle_s
        return max(1, costs.codec_frames_within(least_s))

    def _partial_due_s(self, request: EngineRequest) -> float:
        """Return when to flush a partial chunk; ``inf``: not yet.

        Frames of the stage before are awaited until the client's audio is about to run out; before
        the first audio, for ``margin_s`` after each frame.
        """
        least = 1 if self._is_end_planned(request) else self._sizes[0]
        if (num_ready := self._num_ready(request)) < least:
            return inf
        has_more = request.may_run
        if self._codec.has_upstream and num_ready < request.codec.chunk_frames:
            has_more |= request.num_frames_allowed is not None
        if not has_more:
            return -inf
        if self._codec.has_upstream and self.is_first_audio_due(request):
            return request.codec.received_s + self._policy.margin_s
        return request.clock.deadline_s - self._policy.margin_s - self._costs.long_frame_s

    def _chunk(self, request: EngineRequest, now_s: float) -> CodecChunk:
        num_ready, progress, end = self._num_ready(request), request.codec, None
        if self._is_end_planned(request):
            num_frames = round_up(num_ready, self._sizes)
            end = self._end(request)
        else:
            num_frames = round_down(min(num_ready, progress.chunk_frames), self._sizes)
            num_left = (1 - progress.num_decoded) % self._codec.pass_frames
            if num_left and (progress.num_decoded or not request.is_live):
                num_frames = min(num_frames, num_left)
        chunk = CodecChunk(slot_of(request), progress.num_decoded, num_frames, end)
        request.plan_chunk(num_frames)
        if request.is_live:
            slack_s = self._extend_clock(request, num_frames, now_s)
            step_s = self._costs.mean_frame_s
            progress.chunk_frames = self.next_chunk_frames(num_frames, slack_s, step_s)
        return chunk

    def _end(self, request: EngineRequest) -> int | None:
        """Return the `CodecChunk.end` of a request whose end is planned."""
        return request.num_frames

    def _extend_clock(self, request: EngineRequest, num_frames: int, now_s: float) -> float:
        """Move a client's deadline by a chunk that is planned; return its slack."""
        if request.clock.deadline_s == inf:
            return request.codec.num_decoding * self._codec.frame_s
        request.clock.extend(now_s, num_frames * self._codec.frame_s)
        return request.clock.deadline_s - now_s

    def _start_clock(self, request: EngineRequest, num_decoding: int, now_s: float) -> None:
        """Start a client's clock with its first audio, that of later chunks in flight included."""
        if request.is_live and request.clock.deadline_s == inf:
            request.clock.deadline_s = now_s + num_decoding * self._codec.frame_s

    def _audio(self, request: EngineRequest, samples: Samples, num_frames: int) -> AudioChunk:
        first = request.codec.num_delivered
        request.codec.num_delivered += num_frames
        frames = request.frames[first : first + num_frames] if request.returns_frames else ()
        return AudioChunk(samples, self._codec.sample_rate_hz, num_frames, frames=tuple(frames))


class CausalChunks(ChunkPlanner):
    """Decodes frames in the step that makes them, or in the one after it.

    One codec pass over the frames of two steps is shorter than two passes. If it is much shorter
    and no stream is near its deadline, every other step leaves its chunks to the next one.
    """

    def _num_ready(self, request: EngineRequest) -> int:
        return request.num_frames_undecoded

    def _is_end_planned(self, request: EngineRequest) -> bool:
        return request.is_last_frame_planned

    def _end(self, request: EngineRequest) -> None:
        return None  # audio past the end is cut off by `deliver`

    def _defers(self, due: Sequence[EngineRequest], num_frames: int, now_s: float) -> bool:
        if not self._may_defer(due, num_frames, now_s):
            return False
        for request in due:
            size = round_up(request.codec.chunk_frames + 1, self._sizes)
            if size <= request.num_frames_undecoded + 1:
                request.codec.chunk_frames = size
        return True

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


class LookAheadChunks(ChunkPlanner):
    """Decodes frames once they and those after them have been made.

    Only of frames that have been made is it known that the request did not end before them.
    """

    def _num_ready(self, request: EngineRequest) -> int:
        progress, num_ahead = request.codec, self._codec.held_frames
        if request.finish_reason is not None:
            num_ahead = -progress.num_late
        return request.num_frames - progress.num_decoded - num_ahead

    def _is_end_planned(self, request: EngineRequest) -> bool:
        return request.finish_reason is not None


class ElasticChunks(LookAheadChunks):
    """Delivers the audio of frames that may come with later chunks, or be none."""

    def is_first_audio_due(self, request: EngineRequest) -> bool:
        # That frames were decoded does not mean that they had audio.
        return request.is_live and request.clock.deadline_s == inf

    def deliver(
        self, request: EngineRequest, chunk: CodecChunk, samples: Samples, now_s: float
    ) -> AudioChunk | None:
        progress = request.codec
        num_delivered = max(progress.num_delivered, self._delivered_with(request, chunk))
        num_frames = num_delivered - progress.num_delivered
        num_decoding = progress.num_decoding
        progress.num_decoding -= chunk.num_frames
        if progress.held is not None:
            samples, progress.held = np.concatenate((progress.held, samples)), None
        is_last = request.finish_reason is not None and num_delivered >= request.num_frames
        if not is_last and self._is_too_short(request, len(samples)):
            progress.held = samples
            return None
        if len(samples):
            self._start_clock(request, num_decoding, now_s)
        self._correct_clock(request, len(samples), chunk.num_frames)
        if num_frames == 0 and not len(samples):
            return None
        return self._audio(request, samples, num_frames)

    def _delivered_with(self, request: EngineRequest, chunk: CodecChunk) -> int:
        """Return the frames whose audio is complete with a chunk, for requests that are resumed.

        From the chunk with the last frame on, none is complete until all have become audio.
        """
        end = chunk.start + chunk.num_frames
        if chunk.end is None or end >= chunk.end + request.codec.num_late:
            return min(end, request.num_frames)
        return end if end < chunk.end else 0

    def _extend_clock(self, request: EngineRequest, num_frames: int, now_s: float) -> float:
        if request.clock.deadline_s == inf:
            return 0.0  # all frames so far may be silent
        return super()._extend_clock(request, num_frames, now_s)

    def _is_too_short(self, request: EngineRequest, num_samples: int) -> bool:
        """Whether a client's first audio would end before the next, were it delivered now.

        The next audio comes with a chunk, or later if some frames have none: frames are expected to
        bring as much as those decoded so far. Audio of a chunk of the largest size is enough.
        """
        codec, costs, progress = self._codec, self._costs, request.codec
        if not self.is_first_audio_due(request):
            return False
        if num_samples == 0 or request.is_half_unread:
            return False  # nothing to hold; or the frames are needed, for the next ones to be made
        until_next_s = self._policy.start * costs.long_frame_s
        if request.finish_reason is None:
            num_sounding = codec.late_frames + num_samples / codec.samples_per_frame
            share = max(1.0, progress.num_decoded / num_sounding)
            until_next_s += progress.chunk_frames * share * costs.mean_frame_s
        enough_s = min(until_next_s, self._sizes[-1] * codec.frame_s)
        return num_samples / codec.sample_rate_hz < enough_s

    def _correct_clock(self, request: EngineRequest, num_samples: int, num_frames: int) -> None:
        """Replace the usual audio of a chunk's frames, which was planned, by what they became."""
        num_missing = num_frames * self._codec.samples_per_frame - num_samples
        if request.clock.deadline_s < inf:
            request.clock.deadline_s -= num_missing / self._codec.sample_rate_hz


def round_up(num_frames: float, sizes: Sequence[int]) -> int:
    """Return the smallest of ascending ``sizes`` that holds as many frames, or the largest."""
    return next((size for size in sizes if size >= num_frames), sizes[-1])


def round_down(num_frames: float, sizes: Sequence[int]) -> int:
    """Return the largest of ascending ``sizes`` that is not larger, or 0."""
    return max((size for size in sizes if size <= num_frames), default=0)
