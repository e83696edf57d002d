"""What of a stream has been delivered, so that another replica's stream can go on after it."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

from antiphon.contracts.picture_types import Progress
from antiphon.contracts.types import AudioChunk, Ended, FrameReady
from antiphon.stages.base import StageItem, StageRequest


@dataclass(slots=True)
class _Count:
    """How much of a stream there was.

    Attributes:
        samples: of audio.
        frames: of the model.
        words: with times.
        others: items that are neither audio nor frames nor progress.
    """

    samples: int = 0
    frames: int = 0
    words: int = 0
    others: int = 0


@dataclass(slots=True)
class Delivered:
    """The items of one stream that were given to its consumer; each of them once.

    If audio brings its frames, a replica is given these and goes on after them. If it does not,
    since a generator made it, a replica makes all of it again, and what was delivered is dropped:
    the same seed gives the same samples.

    Attributes:
        request: whose stream it is.
        num_resumed: times that the stream was gone on with elsewhere, before and after its first
            item.
    """

    request: StageRequest
    clock: Callable[[], float]
    num_resumed: int = 0
    _played_s: float = -inf  # when the listener will have played all of it
    _frames: list[Any] = field(default_factory=list)
    _steps: dict[int, int] = field(default_factory=dict)  # progress, by the number of steps
    _total: _Count = field(default_factory=_Count)
    _made: _Count = field(default_factory=_Count)  # by the replica that makes it now
    _num_certain: int = 0  # samples, when frames came last

    @property
    def has_begun(self) -> bool:
        """Whether anything was delivered."""
        return self._total != _Count() or bool(self._steps)

    @property
    def buffered_s(self) -> float | None:
        """Audio that the listener has left, in seconds; ``None``: nothing was heard yet."""
        if not self.request.is_live or self._played_s == -inf:
            return None
        return max(self._played_s - self.clock(), 0.0)

    def resumed(self) -> StageRequest:
        """Return the request for the next replica, under an id of its own.

        Its former id may be known where it was open: text for that may still be on its way.
        """
        self.num_resumed += 1
        total = self._total
        can_resume = total.frames > 0 and len(self._frames) == total.frames
        # Audio that came after the last frames is made again, and dropped.
        self._made = replace(total, samples=self._num_certain) if can_resume else _Count()
        return replace(
            self.request,
            id=f"{self.request.id}~{self.num_resumed}",
            is_later=True,
            resume_frames=(*self.request.resume_frames, *self._frames) if can_resume else (),
            buffered_s=self.buffered_s,
        )

    def take(self, item: StageItem) -> StageItem | None:
        """Return what of a replica's item is new, to be delivered now; ``None``: nothing of it."""
        match item:
            case AudioChunk():
                return self._take_audio(item)
            case FrameReady():
                self._frames.append(item.frame)
                self._made.frames = self._total.frames = self._total.frames + 1
                return item
            case Ended():
                return item
            case Progress():  # it may be left out, so it is not counted
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
