"""The playback clock: which frames are decoded in a step, by the audio each listener has left."""

from collections.abc import Iterable, Sequence
from math import inf

from antiphon.contracts.engine_limits import PlaybackPolicy
from antiphon.contracts.types import AudioChunk, Samples
from antiphon.engine.cost_model import CostModel
from antiphon.engine.plan import CodecChunk, CodecReplay, CodecShape
from antiphon.engine.request import EngineRequest, slot_of

_REPLAY_SHARE = 0.5  # of a step, that replays may take
_PATIENT_FRAMES = 3  # of slack beyond the margin: who has them can wait for another step


class ChunkPlanner:
    """Plans the codec chunks of all requests, and keeps their playback clocks."""

    def __init__(self, codec: CodecShape, policy: PlaybackPolicy, costs: CostModel) -> None:
        self._codec = codec
        self._is_causal = codec.is_causal
        self._policy = policy
        self._costs = costs
        self._sizes = codec.chunk_sizes
        # Of the step before: whether it decoded, and the frames that it made if it left that to
        # this one.
        self._has_decoded, self._num_deferred_frames = False, 0

    def add(self, request: EngineRequest) -> None:
        """Choose the size of a first chunk: it must last until the second one, one step later.

        A request that is resumed decodes again what its last frames' audio needs, from the last
        whole group on whose look-ahead it has.
        """
        request.late_frames = self._codec.late_frames
        num_whole = max(0, request.num_frames - self._codec.look_ahead_frames)
        request.num_frames_decoded = num_whole - num_whole % self._codec.group_frames
        wanted = request.prompt.first_chunk_frames or self._policy.first_frames
        if request.prompt.first_chunk_frames is None and not request.is_live:
            wanted = self._sizes[-1]
        num_needed = self._policy.start * self._costs.long_frame_s / self._codec.frame_s
        request.chunk_frames = round_up(max(wanted, num_needed), self._sizes)

    def plan(
        self, requests: Iterable[EngineRequest], num_frames: int, now_s: float
    ) -> list[tuple[EngineRequest, CodecChunk]]:
        """Plan the chunks of one step.

        Args:
            requests: that hold a slot, with the frames of this step counted as planned.
            num_frames: that this step makes.
            now_s: the time.
        """
        due: list[EngineRequest] = []
        rest: list[EngineRequest] = []
        danger_s = now_s + self._policy.margin_s + self._costs.long_frame_s
        is_urgent = False
        for request in requests:
            if request.is_replaying:
                continue
            is_in_danger = request.clock.deadline_s < danger_s
            if request.num_frames_undecoded >= request.chunk_frames and (
                self._is_causal or self._num_ready(request) >= request.chunk_frames
            ):
                due.append(request)
            elif (is_in_danger or not request.may_run) and self._rest_due_s(request) <= now_s:
                rest.append(request)
                is_urgent |= is_in_danger
        if self._defers(due, num_frames, now_s, is_urgent=is_urgent):
            return []
        chosen = [*self.select(due, num_frames + self._num_deferred_frames, now_s), *rest]
        self._has_decoded, self._num_deferred_frames = bool(chosen), 0
        return [(request, self._chunk(request, now_s)) for request in chosen]

    def _defers(
        self, due: Sequence[EngineRequest], num_frames: int, now_s: float, *, is_urgent: bool
    ) -> bool:
        """Decide whether all that could be decoded is left to the next step, one frame more each.

        Args:
            due: whose chunks are complete.
            num_frames: that this step makes.
            now_s: the time.
            is_urgent: whether there are others, who cannot wait.
        """
        if is_urgent or not self._has_decoded or not self._is_worth_deferring(num_frames):
            return False
        patient_s = now_s + self._policy.margin_s + _PATIENT_FRAMES * self._costs.long_frame_s
        if any(each.is_first_audio_due or each.clock.deadline_s < patient_s for each in due):
            return False
        for each in due:
            size = round_up(each.chunk_frames + 1, self._sizes)
            if size <= each.num_frames_undecoded + 1:
                each.chunk_frames = size
        self._has_decoded, self._num_deferred_frames = False, num_frames
        return True

    def _is_worth_deferring(self, num_frames: int) -> bool:
        """Whether one pass over the frames of two steps is much shorter than two passes."""
        if not self._is_causal or self._codec.is_elastic or self._codec.has_upstream:
            return False  # what is left may wait for longer than a step
        apart_s = 2 * self._costs.codec_s(num_frames)
        together_s = self._costs.codec_s(2 * num_frames)
        return num_frames > 0 and apart_s - together_s > self._policy.worth * apart_s

    def replay(self, requests: Iterable[EngineRequest], max_frames: int) -> list[CodecReplay]:
        """Plan which frames decoders are given again in one step, before `plan`.

        Those of the listener who is nearest to silence come first.

        Args:
            requests: that hold a slot.
            max_frames: of all of them, so that others do not wait; but a group at least, and more
                where the codec makes them in half of a step that leaves others their time.
        """
        largest, step_s = self._codec.chunk_sizes[-1], self._costs.mean_step_s
        if self._costs.is_trusted:  # each of the codec's calls is for one request
            spare_s = min(step_s, self._codec.frame_s - step_s) * _REPLAY_SHARE
            num_calls = int(spare_s / self._costs.codec_s(largest))
            max_frames = max(max_frames, num_calls * largest)
        replays: list[CodecReplay] = []
        replaying = [each for each in requests if each.is_replaying]
        for request in sorted(replaying, key=lambda each: each.clock.deadline_s):
            while request.is_replaying and (max_frames > 0 or not replays):
                num_left = request.num_to_replay - request.num_replayed
                most = min(num_left, max(max_frames, self._codec.chunk_sizes[0]))
                num_frames = round_down(most, self._codec.chunk_sizes) or num_left
                start = request.num_replayed
                request.num_replayed += num_frames
                replays.append(CodecReplay(slot_of(request), start, request.num_replayed))
                max_frames -= num_frames
        return replays

    def receive(self, request: EngineRequest, now_s: float) -> None:
        """Note that a frame has arrived from the stage before."""
        if request.received_s > -inf:
            self._costs.observe_arrival(now_s - request.received_s)
        request.received_s = now_s

    def next_due_s(self, requests: Iterable[EngineRequest]) -> float:
        """Return when a chunk can be planned without another frame; ``inf``: never."""
        times_s = (self._rest_due_s(each) for each in requests if not each.may_run)
        return min(times_s, default=inf)

    def deliver(
        self, request: EngineRequest, chunk: CodecChunk, samples: Samples, now_s: float
    ) -> AudioChunk | None:
        """Return the part of a decoded chunk whose frames exist; start the playback clock.

        ``None``: there is none, or it is the beginning of a first sound that is held back.
        """
        first = request.num_frames_delivered  # later than the chunk's if this resumed within it
        num_frames = max(0, self._delivered_with(request, chunk) - first)
        num_planned = request.num_frames_decoding
        request.num_frames_decoding -= chunk.num_frames
        is_elastic = self._codec.is_elastic
        if is_elastic:
            is_last = request.finish_reason is not None and first + num_frames >= request.num_frames
            samples = request.join_held(samples)
            if not is_last and self._is_too_short(request, len(samples)):
                request.held = samples
                return None
        is_heard = len(samples) > 0 if is_elastic else num_frames > 0
        if request.is_live and request.clock.deadline_s == inf and is_heard:
            request.clock.deadline_s = now_s + num_planned * self._codec.frame_s
        if is_elastic:
            self._correct(request, len(samples), chunk.num_frames)
        if num_frames == 0 and not (is_elastic and is_heard):
            return None
        request.num_frames_delivered += num_frames
        if not is_elastic:
            at, num_samples = first - chunk.start, self._codec.samples_per_frame
            samples = samples[at * num_samples : (at + num_frames) * num_samples]
        frames = request.frames[first : first + num_frames] if request.returns_frames else ()
        return AudioChunk(samples, self._codec.sample_rate_hz, num_frames, frames=tuple(frames))

    def select(
        self, due: Sequence[EngineRequest], num_frames: int, now_s: float
    ) -> Sequence[EngineRequest]:
        """Return the requests whose chunks this step decodes, of those with a complete chunk."""
        limit = max(self._least_frames(num_frames), num_frames * self._policy.spread)
        if sum([each.chunk_frames for each in due]) <= limit:
            return due
        chosen: list[EngineRequest] = []
        num_chosen = 0
        for each in sorted(due, key=lambda each: each.clock.deadline_s):
            if num_chosen < limit or self._is_waited_for(each, now_s):
                chosen.append(each)
                num_chosen += each.chunk_frames
        return chosen

    def _is_waited_for(self, request: EngineRequest, now_s: float) -> bool:
        """Whether a complete chunk is decoded in any case."""
        comfortable_s = now_s + self._policy.comfort_s
        return request.is_first_audio_due or request.clock.deadline_s < comfortable_s

    def next_chunk_frames(self, last: int, slack_s: float, step_s: float) -> int:
        """Return the size of the chunk that follows one of ``last`` frames.

        Args:
            last: frames of the chunk before.
            slack_s: that the listener has with it.
            step_s: time in which a frame is made.
        """
        policy = self._policy
        longest = min((slack_s - policy.margin_s) / (step_s * policy.growth), last * policy.spacing)
        return max(self._sizes[0], round_down(longest, self._sizes))

    def _least_frames(self, num_made: int) -> int:
        """Return how many frames a step may decode that makes ``num_made``, however few."""
        costs, policy = self._costs, self._policy
        least_s = policy.least * costs.codec_s(1) if num_made else policy.idle_s
        return max(1, costs.codec_frames_within(least_s))

    def _rest_due_s(self, request: EngineRequest) -> float:
        """Return when to decode the frames that there are, be they less than a chunk.

        Frames that the stage before is still making are waited for until the listener is in
        danger of silence; one who has heard nothing yet waits for ``margin_s`` after each frame.
        """
        least = 1 if self._is_end_planned(request) else self._codec.chunk_sizes[0]
        num_ready = self._num_ready(request)
        if num_ready < least:
            return inf
        has_more = request.may_run
        if self._codec.has_upstream and num_ready < request.chunk_frames:
            has_more |= request.num_frames_allowed is not None
        if not has_more:
            return -inf
        if self._codec.has_upstream and request.is_first_audio_due:
            return request.received_s + self._policy.margin_s
        return request.clock.deadline_s - self._policy.margin_s - self._costs.long_frame_s

    def _num_ready(self, request: EngineRequest) -> int:
        """Return the frames that are in no chunk and can be; negative if look-ahead is missing.

        Only of frames that have been made is it known that the request did not end before them.
        """
        if self._is_causal:
            return request.num_frames_undecoded
        num_ahead = self._codec.held_frames
        if request.finish_reason is not None:
            num_ahead = -request.late_frames
        return request.num_frames - request.num_frames_decoded - num_ahead

    def _is_end_planned(self, request: EngineRequest) -> bool:
        """Whether all frames that are still to be decoded can be."""
        return request.is_last_frame_planned if self._is_causal else bool(request.finish_reason)

    def _delivered_with(self, request: EngineRequest, chunk: CodecChunk) -> int:
        """Return the frames whose audio is there with a chunk.

        From the chunk with the last one on, an elastic decoder's frames are not, until all has
        become audio: a request that is resumed goes on exactly where it was.
        """
        end = chunk.start + chunk.num_frames
        if chunk.end is None or end >= chunk.end + request.late_frames:
            return min(end, request.num_frames)
        return end if end < chunk.end else 0

    def _is_too_short(self, request: EngineRequest, num_samples: int) -> bool:
        """Whether a listener's first sound would end before the next, were it given now.

        The next comes with a chunk, or later where some frames have no sound: then frames are
        expected to bring as much as those decoded so far, what is late of it included. Sound of a
        chunk of the largest size is always enough: where frames are slow, no wait would do.
        """
        codec, costs = self._codec, self._costs
        if not request.is_live or request.clock.deadline_s < inf:
            return False
        if num_samples == 0 or request.is_half_unread:
            return False  # nothing to hold; or the frames are needed, for the next ones to be made
        until_next_s = self._policy.start * costs.long_frame_s
        if request.finish_reason is None:
            num_sounding = codec.late_frames + num_samples / codec.samples_per_frame
            share = max(1.0, request.num_frames_decoded / num_sounding)
            until_next_s += request.chunk_frames * share * costs.mean_frame_s
        enough_s = min(until_next_s, self._sizes[-1] * codec.frame_s)
        return num_samples / codec.sample_rate_hz < enough_s

    def _correct(self, request: EngineRequest, num_samples: int, num_frames: int) -> None:
        """Set a listener's clock right: planned was the usual audio of a chunk's frames."""
        num_missing = num_frames * self._codec.samples_per_frame - num_samples
        if request.clock.deadline_s < inf:
            request.clock.deadline_s -= num_missing / self._codec.sample_rate_hz

    def _chunk(self, request: EngineRequest, now_s: float) -> CodecChunk:
        num_waiting, end = self._num_ready(request), None
        if self._is_end_planned(request):
            num_frames = round_up(num_waiting, self._sizes)
            end = None if self._is_causal else request.num_frames
        else:
            num_waiting = min(num_waiting, request.chunk_frames)
            num_frames = round_down(num_waiting, self._codec.chunk_sizes)
        chunk = CodecChunk(slot_of(request), request.num_frames_decoded, num_frames, end)
        request.plan_chunk(num_frames)
        if request.is_live:
            self._advance(request, num_frames, now_s)
        return chunk

    def _advance(self, request: EngineRequest, num_frames: int, now_s: float) -> None:
        """Move the deadline on, and choose the size of the next chunk."""
        if request.clock.deadline_s < inf:
            request.clock.extend(now_s, num_frames * self._codec.frame_s)
            slack_s = request.clock.deadline_s - now_s
        else:  # an elastic decoder's frames may all be silent so far
            num_frames_heard = 0 if self._codec.is_elastic else request.num_frames_decoding
            slack_s = num_frames_heard * self._codec.frame_s
        request.chunk_frames = self.next_chunk_frames(num_frames, slack_s, self._costs.mean_frame_s)


def round_up(num_frames: float, sizes: Sequence[int]) -> int:
    """Return the smallest of ascending ``sizes`` that holds as many frames, or the largest."""
    return next((size for size in sizes if size >= num_frames), sizes[-1])


def round_down(num_frames: float, sizes: Sequence[int]) -> int:
    """Return the largest of ascending ``sizes`` that is not larger, or 0."""
    return max((size for size in sizes if size <= num_frames), default=0)
