"""Answers that a chat model speaks with its own voice."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import replace
from types import MappingProxyType

from antiphon.audio.chain import Chain
from antiphon.contracts.chat import (
    AnswerVoiceCapabilities,
    AnswerVoicePrompter,
    AnswerVoiceRequest,
)
from antiphon.contracts.chat_types import ChatRequest, ChatStream, TextDelta
from antiphon.contracts.prompt import Piece
from antiphon.contracts.types import (
    AudioChunk,
    Ended,
    PositionStates,
    Samples,
    SpeechStream,
    Usage,
    new_request_id,
    new_seed,
)
from antiphon.errors import InvalidRequestError, UnknownVoiceError
from antiphon.pipeline.playback_transcript import PlaybackTranscript
from antiphon.pipeline.reservation import Reservation
from antiphon.pipeline.runtime import LoadedTask
from antiphon.pipeline.speech.model import DEFAULT_VOICE
from antiphon.stages.base import StageRequest
from antiphon.telemetry.metrics import Metrics

_WARM_UP_STATES = 2
_WARM_UP_FRAMES = 32


class ChatVoiceModel(LoadedTask):
    """The voice of a model that chats."""

    prompter: AnswerVoicePrompter

    @property
    def capabilities(self) -> AnswerVoiceCapabilities:
        """What the loaded checkpoint can do."""
        return self.prompter.capabilities

    def voice(self, name: str | None, aliases: Mapping[str, str]) -> str:
        """Return the id of the voice of this name, in any case, or that it is an alias of.

        Args:
            name: ``None`` and "default" are the first voice.
            aliases: Voice names by alias.

        Raises:
            UnknownVoiceError: there is none.
        """
        voices = {each.id.casefold(): each.id for each in self.capabilities.voices}
        wanted = (name or DEFAULT_VOICE).casefold()
        for candidate in (wanted, aliases.get(wanted, "").casefold()):
            if candidate == DEFAULT_VOICE:
                return self.capabilities.voices[0].id
            if candidate in voices:
                return voices[candidate]
        raise UnknownVoiceError(name or "", [*voices.values(), *aliases])

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


class AnswerTalker:
    """The audio of one answer, from hidden states that arrive while it is written."""

    def __init__(
        self,
        model: ChatVoiceModel,
        voice: str | None,
        *,
        aliases: Mapping[str, str] = MappingProxyType({}),
        seed: int | None = None,
        speed: float = 1.0,
        sample_rate_hz: int | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        """Choose voice, speed and sample rate.

        Args:
            model: Model that speaks.
            voice: Voice by name; ``None``: the default one.
            aliases: Voice names by alias.
            seed: makes it repeatable; ``None`` draws one.
            speed: 0.25 to 4.0, above 1 is faster; pitch is kept.
            sample_rate_hz: Sample rate of the audio; ``None``: the model's own.
            metrics: measure the stream.

        Raises:
            UnknownVoiceError: the model has no such voice.
        """
        self._model = model
        self._voice = model.voice(voice, aliases)
        self._seed = new_seed() if seed is None else seed
        self._metrics = metrics or Metrics()
        own_hz = model.capabilities.sample_rate_hz
        self._speed = speed
        self._chain = Chain.build(own_hz, sample_rate_hz or own_hz, speed)
        self._states: asyncio.Queue[PositionStates | None] = asyncio.Queue()
        self._num_states = 0
        self._place: Reservation | None = None
        self._is_speaking = False

    @property
    def sample_rate_hz(self) -> int:
        """Of the audio."""
        return self._chain.sample_rate_hz

    def push_states(self, states: PositionStates) -> None:
        """Take states of the language model, of its prompt first; known ones are skipped."""
        num_old = max(0, self._num_states - states.start)
        if num_old < len(states.states):
            self._num_states = states.start + len(states.states)
            self._states.put_nowait(PositionStates(states.start + num_old, states.states[num_old:]))

    def complete(self) -> None:
        """Mark the answer as complete; may be called more than once."""
        self._states.put_nowait(None)

    async def reserve(self, request_id: str, *, is_live: bool = True) -> None:
        """Admit the audio before any text is written; see `Reservation.take`.

        Args:
            request_id: id of the later call of `audio`.
            is_live: whether a client plays the audio while it is generated.
        """
        self._place = Reservation(
            self._model, request_id, self._metrics, is_live=is_live, speed=self._speed
        )
        await self._place.take()

    async def leave(self) -> None:
        """Release the reservation, unless audio has begun."""
        if not self._is_speaking:
            await self._release()

    async def _release(self) -> None:
        if self._place is not None:
            await self._place.release()

    async def audio(self, request_id: str, *, is_live: bool = True) -> SpeechStream:
        """Yield the audio, then its `Ended`; an answer without a word is silent.

        Raises:
            OverloadedError: before the first chunk: too much is under way.
            EngineError: the model failed.
        """
        self._is_speaking = True
        try:
            prompted = await self._states.get()
            first = None if prompted is None else await self._states.get()
            if prompted is None or first is None:
                yield Ended("stop")
                return
            request = AnswerVoiceRequest(prompted, self._voice)
            prompt = await asyncio.to_thread(self._model.prompter.build, request, self._seed)
            stage_request = StageRequest(
                request_id,
                prompt,
                is_live=is_live,
                stream_id=request_id,
                is_later=self._place is not None and self._place.is_taken,
                speed=self._speed,
            )
            async with aclosing(self._spoken(stage_request, first)) as events:
                async for event in events:
                    yield event
        finally:
            await self._release()

    async def _spoken(self, stage_request: StageRequest, first: PositionStates) -> SpeechStream:
        """Yield the audio of a prompt and of the states that follow."""
        num_frames = 0
        with self._metrics.observe(self._model.name) as stats:
            stats.ask()
            stream = self._model.open(stage_request, self._pieces(first))
            async with aclosing(stream) as items:
                async for item in items:
                    await self._release()  # the request has it by now
                    if isinstance(item, AudioChunk):
                        stats.hear(item.duration_s)
                        samples = await self._changed(item.samples)
                        num_frames += item.num_frames
                        if len(samples):
                            yield replace(item, samples=samples, sample_rate_hz=self.sample_rate_hz)
                        stats.ask()
                    elif isinstance(item, Ended):
                        ended = replace(item, usage=Usage(0, num_frames))
                        if len(rest := await self._flushed()):
                            yield AudioChunk(rest, self.sample_rate_hz)
                        stats.end(ended)
                        yield ended

    async def _pieces(self, first: PositionStates) -> AsyncGenerator[Piece, None]:
        """Yield what the voice reads of the answer, as it is written."""
        states: PositionStates | None = first
        num_before = 0
        while states is not None:
            yield self._model.prompter.piece(states, num_before)
            num_before += len(states.states)
            states = await self._states.get()
        yield self._model.prompter.piece(None, num_before)

    async def _changed(self, samples: Samples) -> Samples:
        if self._chain.is_identity:
            return samples
        return await asyncio.to_thread(self._chain.push, samples)

    async def _flushed(self) -> Samples:
        return await asyncio.to_thread(self._chain.flush)


class OmniTalkerChat:
    """The two streams of one answer, which are read at the same time.

    The caller reads `text` and `audio`, and closes both; that stops the language model
    and its voice.

    Attributes:
        transcript: Alignment of the text with the audio.
    """

    def __init__(self, request: ChatRequest, chat: ChatStream, voice: AnswerTalker) -> None:
        """Begin to speak an answer.

        Args:
            request: Request that is answered.
            chat: Answer whose states are pushed to ``voice``; closed with `text`.
            voice: Talker.
        """
        if request.num_logprobs is not None:
            raise InvalidRequestError("'logprobs' is not supported with audio output.")
        self._request = request
        self._voice_id = f"{request.id}-voice"
        self._chat = chat
        self._voice = voice
        self.transcript = PlaybackTranscript()

    @property
    def sample_rate_hz(self) -> int:
        """Of the audio."""
        return self._voice.sample_rate_hz

    async def text(self) -> ChatStream:
        """Yield what is written, once the audio is admitted.

        Raises:
            OverloadedError: before anything is written: too much is under way.
            EngineError: a model failed.
        """
        try:
            async with aclosing(self._chat) as events:
                await self._voice.reserve(self._voice_id, is_live=self._request.is_live)
                async for event in events:
                    if isinstance(event, TextDelta):
                        self.transcript.write(event.text, event.text)
                    else:
                        self._voice.complete()  # the voice need not wait for the reader
                    yield event
        finally:
            self._voice.complete()  # also of what failed, or was closed
            await self._voice.leave()

    async def audio(self) -> SpeechStream:
        """Yield the audio; see `AnswerTalker.audio`."""
        stream = self._voice.audio(self._voice_id, is_live=self._request.is_live)
        async with aclosing(stream) as events:
            async for event in events:
                if isinstance(event, AudioChunk):
                    self.transcript.add_audio(event.duration_s)
                else:
                    self.transcript.complete()
                yield event
