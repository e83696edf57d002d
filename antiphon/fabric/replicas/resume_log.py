"""Log of the delivered items of a stream, after which another replica resumes it."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

from antiphon.contracts.picture_types import Progress
from antiphon.contracts.types import AudioChunk, Ended, FrameReady
from antiphon.stages.base import StageItem, StageRequest


@dataclass(slots=True)
class _Count:
    samples: int = 0
    frames: int = 0
    words: int = 0
    others: int = 0


@dataclass(slots=True)
class ResumeLog:
    """Items of one stream that were delivered to its consumer, each of them once.

    If audio carries its frames, the next replica prefills them and continues. Audio of a generator
    carries none: the next replica generates all of it again from the same seed, and what was
    delivered is dropped.

    Attributes:
        num_resumed: number of times that another replica took over, before or after the first
            item.
    """

    request: StageRequest
    clock: Callable[[], float]
    num_resumed: int = 0
    _played_s: float = -inf  # end of playback of all delivered audio
    _frames: list[Any] = field(default_factory=list)
    _steps: dict[int, int] = field(default_factory=dict)  # progress, by the number of steps
    _total: _Count = field(default_factory=_Count)
    _made: _Count = field(default_factory=_Count)  # by the current replica
    _num_certain: int = 0  # samples at the last frames

    @property
    def has_begun(self) -> bool:
        return self._total != _Count() or bool(self._steps)

    @property
    def buffered_s(self) -> float | None:
        """Playback buffer of the client in seconds; ``None`` before the first audio."""
        if not self.request.is_live or self._played_s == -inf:
            return None
        return max(self._played_s - self.clock(), 0.0)

    def resumed(self) -> StageRequest:
        """Return the request for the next replica, under an id of its own.

        The former id may be known where it was open: text for it may still be in flight.
        """
        self.num_resumed += 1
        total = self._total
        can_resume = total.frames > 0 and len(self._frames) == total.frames
        # Audio after the last frames is generated again and dropped.
        self._made = replace(total, samples=self._num_certain) if can_resume else _Count()
        return replace(
            self.request,
            id=f"{self.request.id}~{self.num_resumed}",
            is_later=True,
            resume_frames=(*self.request.resume_frames, *self._frames) if can_resume else (),
            buffered_s=self.buffered_s,
        )

    def take(self, item: StageItem) -> StageItem | None:
        """Return the part of an item that was not delivered yet; ``None``: all of it was."""
        match item:
            case AudioChunk():
                return self._take_audio(item)
            case FrameReady():
                self._frames.append(item.frame)
                self._made.frames = self._total.frames = self._total.frames + 1
                return item
            case Ended():
                return item
            case Progress():  # optional, so not counted
                if item.step <= self._steps.get(item.num_steps, 0):
                    return None
                self._steps[item.num_steps] = item.step
                return item
        self._made.others += 1
        if self._made.others <= self._total.others:
            return None
        self._total.others = self._made.others
        return item

    def _take_audio(self, chunk: AudioChunk) -> AudioChunk | None:
        made, total = self._made, self._total
        num_old = max(0, min(total.samples - made.samples, len(chunk.samples)))
        num_old_words = max(0, min(total.words - made.words, len(chunk.words)))
        made.samples += len(chunk.samples)
        made.words += len(chunk.words)
        made.frames += chunk.num_frames
        num_frames = max(0, made.frames - total.frames)
        is_known = num_old == len(chunk.samples) and num_old_words == len(chunk.words)
        if is_known and not num_frames and (num_old or num_old_words):
            return None
        self._frames += chunk.frames
        total.samples = max(total.samples, made.samples)
        total.words = max(total.words, made.words)
        total.frames = max(total.frames, made.frames)
        if num_frames:
            self._num_certain = made.samples
        if num_old or num_old_words:
            chunk = replace(
                chunk,
                samples=chunk.samples[num_old:],
                words=chunk.words[num_old_words:],
                num_frames=num_frames,
                unspoken=(),
            )
        if chunk.frames and not self.request.returns_frames:
            chunk = replace(chunk, frames=())
        if len(chunk.samples):
            begins_s = max(self._played_s, self.clock())
            self._played_s = begins_s + chunk.duration_s / self.request.speed
        return chunk
