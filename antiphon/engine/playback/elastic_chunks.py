"""Codec chunks of codecs that look ahead, decode groups, or deliver a frame's audio later."""

from math import inf

from antiphon.contracts.types import AudioChunk, Samples
from antiphon.engine.plan import CodecChunk
from antiphon.engine.playback.chunk_planner import ChunkPlanner
from antiphon.engine.request import EngineRequest


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
        samples = progress.join_held(samples)
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
        """Return the frames whose audio is complete with a chunk.

        From the chunk with the last frame on none is complete until all have become audio: a
        request that is resumed then continues exactly where it was.
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

        The next audio comes with a chunk, or later where some frames have none: then frames are
        expected to bring as much as those decoded so far, the decoder's latency included. Audio of
        a chunk of the largest size is always enough: where frames are slow, no wait would do.
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
