"""Speaks one request: its plan's segments, one prefetched, joined into one stream of audio.

The text may be whole, or arrive while it is spoken; both go the same way. A segment has its seed
whatever surrounds it, so that its audio depends on nothing but its text and its place.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial

from antiphon.audio.wav import silence
from antiphon.concurrency import Workers
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import (
    AudioChunk,
    Ended,
    SpeechEvent,
    SpeechRequest,
    SpeechStream,
    Voice,
)
from antiphon.errors import AntiphonError, OverloadedError
from antiphon.pipeline.speech.model import SpeechModel
from antiphon.pipeline.speech.pauses import Pause
from antiphon.pipeline.speech.segment_checkpoint import SegmentCheckpoints
from antiphon.pipeline.speech.segment_stream import SegmentContext, SegmentStream
from antiphon.pipeline.speech.synthesis import Synthesis, both_ended, joined, unspoken_words
from antiphon.pipeline.speech.text_plan import PlanItem, Prefetcher, Segment, Source, TextPlanner
from antiphon.telemetry.metrics import Metrics

ResolveVoice = Callable[[], Awaitable[tuple[SpeechRequest, Voice]]]


class TextSynthesis(Synthesis):
    """One utterance; a whole text is given to `speak`, one that arrives to `push` and `finish`.

    At most two segments are under way: the one that is played and the one after it, which begins
    when the first has given audio.

    Attributes:
        on_segment: Callback with the text of a segment when its audio has been yielded, but for the
            part that is joined with the next.
    """

    _model: SpeechModel

    def __init__(
        self,
        model: SpeechModel,
        request: SpeechRequest,
        workers: Workers,
        metrics: Metrics,
        resolve_voice: ResolveVoice,
        planner: TextPlanner,
        *,
        reads_late: bool = False,
        checkpoints: SegmentCheckpoints | None = None,
    ) -> None:
        """Prepare to speak.

        Args:
            resolve_voice: returns the request with all that the model needs of its voice, and the
                voice.
            reads_late: whether the model is given the text token by token, as it arrives.
        """
        super().__init__(model, request, workers, metrics)
        self._resolve_voice = resolve_voice
        self._planner = planner
        self._reads_late, self._checkpoints = reads_late, checkpoints
        self.on_segment: Callable[[str], None] = lambda _: None
        self._items: deque[PlanItem | AntiphonError] = deque()
        self._has_changed = asyncio.Event()
        self._is_complete = self._may_prefetch = False
        self._whole: str | None = None
        self._segment_context: SegmentContext | None = None
        self._prompt: Prompt | None = None  # of the first segment
        self._playing: _Opened | None = None
        self._next: _Opened | None = None
        self._pause_s = 0.0
        self._num_silent = 0

    def push(self, text: str) -> None:
        """Add text; what is wrong with it is raised by `events`, in its turn."""
        self._plan(partial(self._planner.push, text))

    def flush(self) -> None:
        """Speak what there is without waiting for the end of its sentence."""
        self._plan(self._planner.flush)

    def finish(self) -> None:
        """End the text; may be called again."""
        self._plan(self._planner.finish, is_last=True)

    def prefetch(self) -> None:
        """Begin with the first segment before `events` is pulled, a few chunks ahead."""
        self._may_prefetch = True
        self._prefetch_next()

    def speak(self, text: str) -> SpeechStream:
        """Return the events of a text that is whole; see `events`."""
        self._whole = text
        return self.events()

    async def close(self) -> None:
        """Stop all work, wherever it is; returns when everything is free."""
        self._may_prefetch = False
        for opened in (self._playing, self._next):
            if opened is not None:  # still there if an earlier call was cancelled
                await opened.source.close()
        self._playing = self._next = None
        await super().close()

    async def _find_voice(self) -> Voice:
        return (await self._context()).voice

    async def _context(self) -> SegmentContext:
        """Return what all segments have in common, once the voice is there."""
        if self._segment_context is None:
            request, voice = await self._resolve_voice()
            await self._model.prepare_to_encode(request.options)
            self._segment_context = SegmentContext(
                request=request,
                voice=voice,
                model=self._model,
                workers=self._workers,
                reads_late=self._reads_late,
                is_admitted=self._is_admitted,
                checks_text=self._whole is None,
                checkpoints=self._checkpoints,
            )
        return self._segment_context

    def _plan(self, more: Callable[[], list[PlanItem]], *, is_last: bool = False) -> None:
        if self._is_complete:
            return
        self._is_complete = is_last
        try:
            self._items += more()
            if is_last:
                left_out = Ended("stop", unspoken=joined((), self._planner.unspoken))
                self._ended = both_ended(self._ended, left_out)
        except AntiphonError as error:
            self._planner.cut()
            self._items.append(error)
            self._is_complete = True
        self._has_changed.set()
        self._prefetch_next()
        self._note_waiting()

    def _plan_whole(self, text: str, context: SegmentContext) -> None:
        """Plan a whole text, see what will not be spoken, and build the first prompt."""
        items = self._planner.whole(text)
        segments = [item for item in items if isinstance(item, Segment)]
        texts = [segment.text.written for segment in segments]
        language = context.request.language
        unspoken = unspoken_words(context.model.prompter, context.voice, language, texts)
        self._ended = Ended("stop", unspoken=joined(unspoken, self._planner.unspoken))
        if context.checkpoints is None:
            self._prompt = context.build(segments[0], texts[0])
        else:
            context.checkpoints.plan(sum(map(len, texts)))
        self._items += items
        self._is_complete = True

    async def _step(self) -> list[AudioChunk] | None:
        if self._whole is not None and not self._is_complete:
            context = await self._context()
            await context.compute(len(self._whole), self._plan_whole, self._whole, context)
        if self._playing is not None:
            return await self._play(self._playing)
        if (silence := self._silence()) is not None:
            await asyncio.sleep(0)  # nothing is waited for: other tasks have their turn
            return [silence]
        match await self._next_item():
            case None:
                return None
            case Pause() as pause:
                self._pause_s += pause.duration_s
                return []
            case Segment() as segment:
                return await self._begin(segment)
            case error:
                raise error

    async def _next_item(self) -> PlanItem | AntiphonError | None:
        while not self._items and not self._is_complete:
            self._note_waiting()
            self._has_changed.clear()
            await self._has_changed.wait()
        return self._items.popleft() if self._items else None

    def _silence(self) -> AudioChunk | None:
        """Return the next silence of a pause, at most a second; its length is exact at any speed.

        Pauses in a row are rounded to samples as one.
        """
        rate_hz = self.sample_rate_hz
        num_samples = min(round(self._pause_s * rate_hz) - self._num_silent, rate_hz)
        if not num_samples:
            return None
        self._num_silent += num_samples
        return AudioChunk(silence(num_samples, self._model.capabilities.channels), rate_hz)

    async def _begin(self, segment: Segment) -> list[AudioChunk]:
        context = await self._context()
        prefetched, self._next = self._next, None
        if prefetched is None:
            prefetched = self._opened(segment, self._prompt)
            self._prompt = None
        self._playing = prefetched
        self._may_prefetch = False  # before this one has given audio
        if self._mixer is None:
            self._start_s += self._pause_s
            self._pause_s, self._num_silent = 0.0, 0
        has_next = segment.is_last is not True
        return await self._begin_segment(context.voice, segment.boundary, has_next=has_next)

    async def _play(self, playing: "_Opened") -> list[AudioChunk]:
        """Return what comes next of the segment that is played."""
        if not self._is_complete:
            self._note_waiting()
        try:
            event = await playing.source.next()
        except OverloadedError:
            if not await self._may_go_offline():
                raise
            await playing.source.close()
            self._playing = self._opened(playing.segment)
            return []
        if isinstance(event, AudioChunk):
            await self.release()  # the segment has it by now
            self._may_prefetch = True
            if self._items:
                self._prefetch_next()
            if event.words:
                event = replace(event, words=self._planner.placed(playing.segment, event.words))
            return await self._push(event)
        assert event is not None, "a segment ends with one Ended"
        self.on_segment(playing.segment.text.written)
        await playing.source.close()
        self._playing = None
        is_last = playing.segment.is_last
        assert is_last is not None, "a segment ends after its text"
        return await self._end_segment(event, is_last=is_last)

    async def _may_go_offline(self) -> bool:
        """Give up the priority of a listener, where the request allows that; return whether."""
        context = await self._context()
        request = context.request
        if not (request.may_wait and request.is_live) or self._has_spoken:
            return False
        self._segment_context = replace(context, request=replace(request, is_live=False))
        return True

    def _prefetch_next(self) -> None:
        """Begin the next segment, if it is there and its turn has come."""
        if not self._may_prefetch or self._next is not None:
            return
        segment = next((item for item in self._items if isinstance(item, Segment)), None)
        if segment is not None:
            opened = self._opened(segment)
            self._next = replace(opened, source=Prefetcher(opened.stream))

    def _opened(self, segment: Segment, prompt: Prompt | None = None) -> "_Opened":
        stream = SegmentStream(segment, self._context, self._note_waiting, prompt)
        return _Opened(segment, stream, stream)

    def _note_waiting(self) -> None:
        """Update the statistics: whether the stream waits for text."""
        if self._stats is None:
            return
        playing = self._playing
        has_none = not self._items and not self._is_complete
        self._stats.wait(playing.is_waiting if playing else has_none)


@dataclass(frozen=True, slots=True)
class _Opened:
    """A segment that has been begun; ``source`` is its stream, or what pulls that ahead."""

    segment: Segment
    stream: SegmentStream
    source: Source[SpeechEvent]

    @property
    def is_waiting(self) -> bool:
        is_empty = self.source.is_empty if isinstance(self.source, Prefetcher) else True
        return is_empty and self.stream.is_waiting
