"""Speaks one segment, whose text may still be arriving, with whatever the family can do."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from antiphon.concurrency import Workers
from antiphon.contracts.prompt import Feed, LateText, Piece, Prompt, SupportsTextChecks
from antiphon.contracts.types import AudioChunk, Ended, SpeechEvent, SpeechRequest, Usage, Voice
from antiphon.errors import EngineError, RateLimitError
from antiphon.pipeline.speech.model import SpeechModel
from antiphon.pipeline.speech.segment_checkpoint import SegmentCheckpoints
from antiphon.pipeline.speech.text import segment_seed
from antiphon.pipeline.speech.text_plan import Segment
from antiphon.stages.base import StageRequest, StageStream
from antiphon.telemetry.tracing import span

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentContext:
    """What all segments of a request have in common.

    Attributes:
        request: Request with seed and sampling; its ``input`` is not used.
        reads_late: whether the model is given the text token by token, as it arrives.
        is_admitted: whether there was room for it before there was text.
        checks_text: Whether segments without speakable text are left out.
    """

    request: SpeechRequest
    voice: Voice
    model: SpeechModel
    workers: Workers
    reads_late: bool = False
    is_admitted: bool = False
    checks_text: bool = False
    checkpoints: SegmentCheckpoints | None = None

    async def compute(self, num_characters: int, function: Callable[..., T], *args: object) -> T:
        """Call what reads so much text: at once if that is quick, else in a worker thread."""
        if self.model.builds_at_once(num_characters, self.request):
            return function(*args)
        return await self.workers.run(function, *args)

    def build(self, segment: Segment, text: str) -> Prompt:
        """Return the prompt of a segment with complete text; blocks; raises InvalidRequestError."""
        with span("prompt"):
            request = replace(self.request, input=text)
            return self.model.prompter.build(request, self.voice, self.seed(segment))

    def seed(self, segment: Segment) -> int:
        assert self.request.seed is not None
        return segment_seed(self.request.seed, segment.index)

    def stage_request(self, segment: Segment, prompt: Prompt) -> StageRequest:
        """Return what the stages are asked for."""
        request = self.request
        return StageRequest(
            f"{request.id}-{segment.index}",
            prompt,
            is_live=request.is_live,
            stream_id=request.id,
            is_later=self.is_admitted or segment.index > 0,
            speed=request.speed,
        )


class SegmentStream:
    """A `Source` of one segment's audio at the model's rate and speed, last its `Ended`."""

    def __init__(
        self,
        segment: Segment,
        context: Callable[[], Awaitable[SegmentContext]],
        on_change: Callable[[], None],
        prompt: Prompt | None = None,
    ) -> None:
        """Prepare to speak; ``on_change`` is called when `is_waiting` may have changed."""
        self._segment = segment
        self._get_context = context
        self._context: SegmentContext | None = None
        self._prompt = prompt
        self._on_change = on_change
        self._stream: StageStream | None = None
        self._text: AsyncGenerator[Piece, None] | None = None
        self._kept: deque[SpeechEvent] = deque()
        self._chunks: list[AudioChunk] = []
        self._num_tokens = self._num_frames = 0
        self._num_frames_allowed: int | None = None
        self._unspoken: tuple[str, ...] = ()
        self._is_read = self._is_fed = self._has_ended = False

    @property
    def is_waiting(self) -> bool:
        """Whether the model has spoken all text that there is of the segment so far."""
        text, allowed = self._segment.text, self._num_frames_allowed
        if text.is_complete or text.has_unread or not self._is_read:
            return False
        return self._has_ended or (allowed is not None and self._num_frames >= allowed)

    async def next(self) -> SpeechEvent | None:
        """See `Source.next`.

        Raises:
            InvalidRequestError: before the first item.
            RateLimitError: the same; a later segment of an admitted stream waits instead.
            EngineError: the model failed.
        """
        if self._kept:
            return self._kept.popleft()
        if self._has_ended:
            return None
        context = self._context = self._context or await self._get_context()
        while True:
            try:
                if self._stream is None and (ended := await self._open(context)) is not None:
                    return ended
                assert self._stream is not None
                item = await anext(self._stream)
                break
            except RateLimitError as error:
                if self._segment.index == 0 and context.checkpoints is None:
                    raise
                await self.close()
                await asyncio.sleep(error.retry_after_s or 1.0)
        if isinstance(item, AudioChunk):
            self._num_frames += item.num_frames
            if context.checkpoints is not None:
                self._chunks.append(item)
            return item
        assert isinstance(item, Ended), "stages end with audio"
        return await self._end(context, item)

    async def close(self) -> None:
        stream, self._stream = self._stream, None
        text, self._text = self._text, None
        if stream is not None:
            await stream.aclose()
        if text is not None:
            await text.aclose()  # no stage may have begun to read it

    async def _open(self, context: SegmentContext) -> SpeechEvent | None:
        """Open the model's stream; return an item instead if the model is not needed."""
        segment = self._segment
        if context.reads_late:
            self._stream = await self._open_late(context)
            return None
        if context.checkpoints is not None:
            kept = await context.checkpoints.load(segment)
            if kept is not None:
                self._has_ended = True
                self._kept.append(kept[1])
                return kept[0]
        text = await segment.text.whole()
        prompter = context.model.prompter
        if context.checks_text and isinstance(prompter, SupportsTextChecks):
            voice, language = context.voice, context.request.language
            check = await context.compute(len(text), prompter.check_text, text, voice, language)
            if check.unspoken and not check.is_spoken:
                self._has_ended = True
                return Ended("stop", unspoken=check.unspoken)
            self._unspoken = check.unspoken
        if (prompt := self._prompt) is None:
            prompt = await context.compute(len(text), context.build, segment, text)
        self._num_tokens = prompt.num_tokens
        self._stream = context.model.open(context.stage_request(segment, prompt))
        return None

    async def _open_late(self, context: SegmentContext) -> StageStream:
        prompter = context.model.prompter
        assert isinstance(prompter, LateText), "the capabilities have late_text"
        text = self._segment.text
        if not text.taken:
            await text.take()
        so_far = replace(context.request, input=text.taken)
        seed = context.seed(self._segment)
        opened = (so_far, context.voice, seed)
        prompt, feed = await context.compute(len(text.taken), prompter.open, *opened)
        self._num_tokens, self._num_frames_allowed = prompt.num_tokens, prompt.num_frames_allowed
        self._is_read = True
        self._text = self._pieces(context, feed)
        return context.model.open(context.stage_request(self._segment, prompt), self._text)

    async def _pieces(self, context: SegmentContext, feed: Feed) -> AsyncGenerator[Piece, None]:
        """Turn the rest of the text into pieces."""
        while True:
            self._is_read = True
            self._on_change()
            if (more := await self._segment.text.take()) is None:
                break
            self._is_read = False
            piece = await context.compute(len(more), feed.push, more)
            if piece is not None:
                self._fed(piece)
                yield piece
        piece = await context.compute(0, feed.close)
        self._fed(piece)
        self._is_fed = True
        yield piece

    def _fed(self, piece: Piece) -> None:
        self._num_tokens += piece.num_tokens
        self._num_frames_allowed = piece.num_frames_allowed

    async def _end(self, context: SegmentContext, ended: Ended) -> Ended:
        """Return how the segment ended, and what it cost; raises EngineError.

        If the model ends before it has read all of an arriving text, the rest is not spoken, as
        if the text had been there from the beginning.
        """
        if ended.reason in ("abort", "error"):
            raise EngineError("The model stopped before the end of the text.")
        self._has_ended = True
        await self.close()  # what the stages hold is free, even if the rest of the text is late
        if context.reads_late and not self._is_fed:
            self._on_change()
            text = await self._segment.text.whole()
            prompt = await context.compute(len(text), context.build, self._segment, text)
            self._num_tokens = prompt.num_tokens
        usage = Usage(self._num_tokens, self._num_frames)
        ended = Ended(ended.reason, usage, self._unspoken)
        if context.checkpoints is not None and self._chunks:
            await context.checkpoints.save(self._segment, self._chunks, ended)
        return ended
