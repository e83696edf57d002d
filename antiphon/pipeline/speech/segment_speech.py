"""Speaks one segment of a text that may still be arriving, with whatever the family can do."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace

from antiphon.errors import EngineError, UnspeakableTextError
from antiphon.fabric.base import StageRequest
from antiphon.models.base import Feed, LateText, Piece
from antiphon.pipeline.speech.pauses import MAX_TOTAL_PAUSE_S, Pause, split_pauses, too_much_silence
from antiphon.pipeline.speech.segmenter import (
    Lengths,
    LengthSegmenter,
    Segmenter,
    SentenceSegmenter,
)
from antiphon.pipeline.speech.service import Speech
from antiphon.pipeline.speech.text import segment_seed
from antiphon.pipeline.speech.text_buffer import TextBuffer
from antiphon.types import (
    AudioChunk,
    Ended,
    FinishReason,
    SpeechRequest,
    SpeechStream,
    Usage,
    Voice,
    new_seed,
)

FIRST_CLAUSE_CHARACTERS = 40
"""A first clause is spoken before its sentence is complete if it is at least this long."""
SENTENCE_CHARACTERS = 24
"""A sentence that is shorter shares a segment with the next, or it would sound cut off."""


class SegmentSpeech:
    """Speaks the segments of one request at the model's own rate and speed."""

    def __init__(self, speech: Speech, request: SpeechRequest, *, reads_late: bool = True) -> None:
        """Check all of a request but its text.

        Args:
            speech: of the server.
            request: what all segments have in common; its ``input`` means nothing.
            reads_late: whether to begin a segment before its text is complete, if the family can.

        Raises:
            InvalidRequestError: names the field and what is allowed.
        """
        self._speech = speech
        self._model = speech.model(request.model)
        speech.check(request, self._model)
        seed = new_seed() if request.seed is None else request.seed
        sampling = request.sampling.with_defaults(self._model.task.sampling)
        self._request = replace(
            request, input="", speed=1.0, sample_rate_hz=None, seed=seed, sampling=sampling
        )
        self._seed = seed
        self._pause_s = 0.0
        changes_words = (
            request.normalize or request.pronunciations or speech.settings.pronunciations
        )
        # Words are exchanged where a text is whole; a word that is late has been read by then.
        self.reads_late = reads_late and self._model.capabilities.late_text and not changes_words

    @property
    def voice_name(self) -> str:
        """What the request calls its voice."""
        return self._request.voice or self._model.capabilities.voices[0].id

    async def check(self) -> None:
        """Find out whether there is the voice that the request names.

        Raises:
            InvalidRequestError: there is none, or the model cannot speak with it.
        """
        await self._speech.cast(self._request, self._model)

    @property
    def sample_rate_hz(self) -> int:
        return self._model.capabilities.sample_rate_hz

    def cutter(self) -> Segmenter:
        """Return what decides where this request's segments end."""
        max_characters = self._model.capabilities.max_segment_characters
        if self.reads_late:
            return LengthSegmenter(max_characters)
        min_sentence = min(SENTENCE_CHARACTERS, max_characters // 2)
        first = Lengths(max=max_characters, min_clause=FIRST_CLAUSE_CHARACTERS)
        return SentenceSegmenter(Lengths(max=max_characters, min_sentence=min_sentence), first)

    def open(self, index: int, text: TextBuffer) -> SpeechStream:
        """Speak a segment; its text is taken as it comes.

        Raises:
            InvalidRequestError: before the first chunk.
            EngineError: the model failed.
        """
        request = replace(
            self._request,
            id=f"{self._request.id}-{index}",
            seed=segment_seed(self._seed, index),
            follows=f"{self._request.id}-0" if index else None,
        )
        if self.reads_late:
            late = self._late(request, text)
            return self._speech.metrics.observed(self._model.name, late)
        return self._whole(request, text)

    async def _whole(self, request: SpeechRequest, text: TextBuffer) -> SpeechStream:
        """Speak a segment that is complete; of one that cannot be spoken, say so at its end."""
        request = replace(request, input=(await text.take_all()).strip())
        self._count_pauses(request.input)
        try:
            async with aclosing(self._speech.stream(request)) as events:
                async for event in events:
                    yield event
        except UnspeakableTextError as error:
            yield Ended("stop", unspoken=error.words)

    def _count_pauses(self, text: str) -> None:
        """Hold the silence of all segments to the bound of a whole text."""
        pieces = split_pauses(text)
        self._pause_s += sum(each.duration_s for each in pieces if isinstance(each, Pause))
        if self._pause_s > MAX_TOTAL_PAUSE_S:
            raise too_much_silence()

    async def _late(self, request: SpeechRequest, text: TextBuffer) -> SpeechStream:
        """Speak while text arrives.

        The model may say that it is done before it has read all of it. Then the segment has ended,
        as it would have if the text had been there from the beginning: what else comes of it is
        not spoken.
        """
        request, voice = await self._speech.cast(request, self._model)
        said = _Said(text)
        while (first := await said.take()) is not None and not first.strip():
            pass
        if first is None:
            yield Ended("stop")
            return
        async with aclosing(self._spoken(request, voice, said)) as events:
            async for event in events:
                yield event

    async def _spoken(self, request: SpeechRequest, voice: Voice, said: "_Said") -> SpeechStream:
        """Speak a segment of which there are words until the model says that it is done."""
        prompter = self._model.prompter
        assert isinstance(prompter, LateText), "the capabilities say so"
        assert request.seed is not None
        workers, so_far = self._speech.workers, replace(request, input=said.so_far)
        prompt, feed = await workers.run(prompter.open, so_far, voice, request.seed)
        said.num_tokens = prompt.num_tokens
        reason: FinishReason = "stop"
        num_frames = 0
        pieces = self._pieces(feed, said)
        async with aclosing(pieces):  # closed here too if no stage has begun to read it
            stage_request = StageRequest(request.id, prompt)
            async with aclosing(self._model.open(stage_request, pieces)) as items:
                async for item in items:
                    if isinstance(item, AudioChunk):
                        num_frames += item.num_frames
                        yield item
                    elif isinstance(item, Ended):
                        if item.reason in ("abort", "error"):
                            raise EngineError("The model stopped before the end of the text.")
                        reason = item.reason
        if not said.is_fed:
            whole = replace(request, input=await said.take_all())
            prompt = await workers.run(prompter.build, whole, voice, request.seed)
            said.num_tokens = prompt.num_tokens
        yield Ended(reason, Usage(said.num_tokens, num_frames))

    async def _pieces(self, feed: Feed, said: "_Said") -> AsyncGenerator[Piece, None]:
        """Turn the rest of the text into pieces."""
        workers = self._speech.workers
        while (more := await said.take()) is not None:
            piece = await workers.run(feed.push, more)
            if piece is not None:
                said.num_tokens += piece.num_tokens
                yield piece
        piece = await workers.run(feed.close)
        said.num_tokens += piece.num_tokens
        said.is_fed = True
        yield piece


class _Said:
    """A growing text, and what has been taken of it.

    Attributes:
        so_far: all that has been taken.
        num_tokens: that the model was given.
        is_fed: whether it was given everything.
    """

    def __init__(self, text: TextBuffer) -> None:
        self._text = text
        self.so_far = ""
        self.num_tokens = 0
        self.is_fed = False

    async def take(self) -> str | None:
        """Return what has come since the last call, waiting for some; ``None`` at the end."""
        more = await self._text.take()
        self.so_far += more or ""
        return more

    async def take_all(self) -> str:
        """Wait for the rest; return the whole text."""
        while await self.take() is not None:
            pass
        return self.so_far


def total(left: Usage, right: Usage) -> Usage:
    """Return what two parts cost together."""
    return Usage(left.input_tokens + right.input_tokens, left.output_tokens + right.output_tokens)
