"""Answers that a chat model speaks with its own voice."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace

from antiphon.concurrency import Workers
from antiphon.contracts.chat import AnswerVoiceCapabilities, AnswerVoicePrompter, AnswerVoiceRequest
from antiphon.contracts.chat_types import ChatStream
from antiphon.contracts.prompt import Piece
from antiphon.contracts.types import (
    AudioChunk,
    Ended,
    PositionStates,
    SpeechRequest,
    Usage,
    Voice,
    new_request_id,
)
from antiphon.pipeline.chat.spoken_chat import SpokenChat
from antiphon.pipeline.speech.model import VoiceModel
from antiphon.pipeline.speech.synthesis import Synthesis
from antiphon.pipeline.speech.text import Boundary
from antiphon.stages.base import StageRequest, StageStream
from antiphon.telemetry.metrics import Metrics

_WARM_UP_STATES = 2
_WARM_UP_FRAMES = 32


class ChatVoiceModel(VoiceModel):
    prompter: AnswerVoicePrompter

    @property
    def capabilities(self) -> AnswerVoiceCapabilities:
        """What the loaded checkpoint can do."""
        return self.prompter.capabilities

    async def warm_up(self) -> None:
        """Speak a short answer without text, so that the first request does not fill caches."""
        request = self.capabilities.sample_request
        prompt = await asyncio.to_thread(self.prompter.build, request, 0)
        prompt = replace(prompt, sampling=replace(prompt.sampling, max_frames=_WARM_UP_FRAMES))
        states = PositionStates(request.states.start, request.states.states[:_WARM_UP_STATES])

        async def pieces() -> AsyncGenerator[Piece, None]:
            yield self.prompter.piece(states, 0)
            yield self.prompter.piece(None, len(states.states))

        async with aclosing(self.open(StageRequest(new_request_id(), prompt), pieces())) as items:
            async for _ in items:
                pass


class StopStringGate:
    """Holds hidden states back until their tokens are final, so that no stop string is spoken.

    The first states pushed are those of the prompt.
    """

    def __init__(self, release: Callable[[PositionStates], None] | None) -> None:
        """Begin an answer; ``release`` receives its states, ``None``: they are dropped."""
        self._release = release
        self._num_prompt: int | None = None
        self._held: deque[PositionStates] = deque()

    def push(self, states: PositionStates) -> None:
        """Take states in; those that come again may begin before others."""
        if self._release is None:
            return
        if self._num_prompt is None:
            self._num_prompt = states.start + len(states.states)
            self._release(states)
        else:
            self._held.append(states)

    def release(self, num_tokens: int) -> None:
        """Release the states of the answer's first ``num_tokens`` tokens."""
        end = (self._num_prompt or 0) + num_tokens
        while self._release is not None and self._held and self._held[0].start < end:
            states = self._held.popleft()
            size = end - states.start
            self._release(PositionStates(states.start, states.states[:size]))
            if size < len(states.states):
                self._held.appendleft(PositionStates(end, states.states[size:]))


class AnswerSynthesis(Synthesis):
    """The audio of one answer, from hidden states that arrive while it is written."""

    _model: ChatVoiceModel

    def __init__(
        self,
        model: ChatVoiceModel,
        request: SpeechRequest,
        voice: Voice,
        workers: Workers,
        metrics: Metrics,
    ) -> None:
        """Prepare an answer with the options and the seed of ``request``."""
        super().__init__(model, request, workers, metrics)
        self._voice = voice
        self._states: asyncio.Queue[PositionStates | None] = asyncio.Queue()
        self._num_states = 0
        self._opening: tuple[PositionStates, PositionStates] | None = None
        self._items: StageStream | None = None
        self._num_frames = 0
        self._has_ended = False

    def push(self, states: PositionStates) -> None:
        """Take states of the language model, of its prompt first; known ones are skipped."""
        num_old = max(0, self._num_states - states.start)
        if num_old < len(states.states):
            self._num_states = states.start + len(states.states)
            self._states.put_nowait(PositionStates(states.start + num_old, states.states[num_old:]))

    def finish(self) -> None:
        """Mark the answer as complete; may be called again."""
        self._states.put_nowait(None)

    async def has_answer(self) -> bool:
        """Wait for the first states of the answer; return whether there are any. Call once."""
        prompted = await self._states.get()
        first = None if prompted is None else await self._states.get()
        if prompted is not None and first is not None:
            self._opening = prompted, first
        return self._opening is not None

    async def close(self) -> None:
        items, self._items = self._items, None
        if items is not None:
            await items.aclose()
        await super().close()

    async def _find_voice(self) -> Voice:
        return self._voice

    async def _step(self) -> list[AudioChunk] | None:
        if self._has_ended:
            return None
        if self._items is None:
            self._items = await self._open()
            return await self._begin_segment(self._voice, Boundary.NONE, has_next=False)
        item = await anext(self._items)
        await self.release()  # the stages have it by now
        if isinstance(item, AudioChunk):
            self._num_frames += item.num_frames
            return await self._push(item)
        assert isinstance(item, Ended), "stages end with audio"
        self._has_ended = True
        ended = replace(item, usage=Usage(0, self._num_frames))
        return await self._end_segment(ended, is_last=True)

    async def _open(self) -> StageStream:
        assert self._opening is not None, "there is an answer"
        prompted, first = self._opening
        request = self._request
        prompt = await self._workers.run(
            self._model.prompter.build, AnswerVoiceRequest(prompted, self._voice.id), request.seed
        )
        stage_request = StageRequest(
            request.id,
            prompt,
            is_live=request.is_live,
            stream_id=request.id,
            is_later=self._is_admitted,
            speed=request.speed,
        )
        return self._model.open(stage_request, self._pieces(first))

    async def _pieces(self, first: PositionStates) -> AsyncGenerator[Piece, None]:
        """Yield what the voice reads of the answer, as it is written."""
        states: PositionStates | None = first
        num_before = 0
        while states is not None:
            yield self._model.prompter.piece(states, num_before)
            num_before += len(states.states)
            states = await self._states.get()
        yield self._model.prompter.piece(None, num_before)


class OmniTalkerChat(SpokenChat):
    """An answer that is spoken by the model that writes it."""

    def __init__(self, chat: ChatStream, synthesis: AnswerSynthesis) -> None:
        """Begin to speak an answer, whose states are pushed to ``synthesis``."""
        super().__init__(chat, synthesis)
        self._states = synthesis

    async def _speaks(self) -> bool:
        return await self._states.has_answer()

    def _write(self, text: str) -> None:
        self.transcript.write(text, text)

    def _stop_writing(self, *, is_complete: bool) -> None:
        self._states.finish()  # the voice need not wait for the reader
