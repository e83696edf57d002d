"""The whole journey of a speech request: text, prompt, stages, transforms, chunks."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import asdict, replace

from antiphon.audio.chain import Chain
from antiphon.concurrency import Workers
from antiphon.config import SpeechSettings
from antiphon.errors import EngineError, InputTooLongError, InvalidRequestError, UnknownModelError
from antiphon.fabric.base import StageRequest
from antiphon.models.base import Prompt
from antiphon.models.options import read_options
from antiphon.pipeline.runtime import DEFAULT_VOICE, LoadedModel
from antiphon.pipeline.text import segment_seed, segments
from antiphon.telemetry import Metrics
from antiphon.types import (
    AudioChunk,
    Ended,
    FinishReason,
    Sampling,
    SpeechRequest,
    SpeechStream,
    Usage,
    Voice,
    new_seed,
)

MIN_SPEED, MAX_SPEED = 0.25, 4.0
MIN_SAMPLE_RATE_HZ, MAX_SAMPLE_RATE_HZ = 8000, 48000


class Speech:
    """Speaks with the served models."""

    def __init__(
        self,
        models: Mapping[str, LoadedModel],
        settings: SpeechSettings,
        metrics: Metrics | None = None,
    ) -> None:
        """Serve ``models`` by name; the first one is the default."""
        self.models = models
        self.settings = settings
        self.metrics = metrics or Metrics()
        self._workers = Workers("speech")

    def model(self, name: str | None) -> LoadedModel:
        """Return the served model of this name or alias.

        Raises:
            UnknownModelError: there is none.
        """
        default = next(iter(self.models))
        wanted = self.settings.model_aliases.get(name or DEFAULT_VOICE, name or DEFAULT_VOICE)
        if wanted == DEFAULT_VOICE:
            wanted = default
        if wanted not in self.models:
            raise UnknownModelError(wanted, [*self.models, *self.settings.model_aliases])
        return self.models[wanted]

    def stream(self, request: SpeechRequest) -> SpeechStream:
        """Speak: audio chunks in order, then one `Ended` with the usage.

        Closing the stream stops the work within one step and frees all that it held.

        Raises:
            InvalidRequestError: here, or before the first chunk; names the field and what is
                allowed.
            EngineError: the model failed, possibly after some chunks.
        """
        model = self.model(request.model)
        voice = model.voice(request.voice, self.settings.voice_aliases)
        self._check(request, model)
        sampling = _filled(request.sampling, model.family.sampling)
        seed = new_seed() if request.seed is None else request.seed
        request = replace(request, sampling=sampling, seed=seed)
        return self.metrics.observed(model.name, self._journey(request, voice, model))

    def close(self) -> None:
        """Stop the worker threads."""
        self._workers.close()

    async def _journey(
        self, request: SpeechRequest, voice: Voice, model: LoadedModel
    ) -> SpeechStream:
        """Speak segment after segment through one chain of transforms."""
        native_hz = model.capabilities.sample_rate_hz
        chain = Chain.build(native_hz, request.sample_rate_hz or native_hz, request.speed)
        num_tokens = num_frames = 0
        reason: FinishReason = "stop"
        async with aclosing(self._prompts(request, voice, model)) as prompts:
            async for index, prompt in prompts:
                num_tokens += prompt.num_tokens
                part = StageRequest(f"{request.id}-{index}", prompt, is_live=request.is_live)
                async with aclosing(model.open(part)) as items:
                    async for item in items:
                        if isinstance(item, AudioChunk):
                            num_frames += item.num_frames
                            if chain.is_identity:
                                yield item
                            elif (chunk := await self._transformed(chain, item)) is not None:
                                yield chunk
                        elif isinstance(item, Ended):
                            reason = _worse(reason, item.reason)
        if not chain.is_identity and len(tail := await self._workers.run(chain.flush)):
            yield AudioChunk(tail, chain.sample_rate_hz)
        yield Ended(reason, Usage(num_tokens, num_frames))

    async def _prompts(
        self, request: SpeechRequest, voice: Voice, model: LoadedModel
    ) -> AsyncGenerator[tuple[int, Prompt], None]:
        """Build the prompt of each segment, when it is wanted; all at once if there is but one."""
        assert request.seed is not None
        seed = request.seed

        def build(index: int, text: str) -> Prompt:
            part = replace(request, input=text)
            return model.prompter.build(part, voice, segment_seed(seed, index))

        def begin() -> tuple[Prompt, list[str]]:
            first, *rest = segments(request.input, model.capabilities.max_segment_characters)
            return build(0, first), rest

        first, rest = await self._workers.run(begin)
        yield 0, first
        for index, text in enumerate(rest, start=1):
            yield index, await self._workers.run(build, index, text)

    async def _transformed(self, chain: Chain, chunk: AudioChunk) -> AudioChunk | None:
        """Return what the chain has ready once it has heard a chunk, if anything."""
        samples = await self._workers.run(chain.push, chunk.samples)
        if not len(samples):
            return None
        return AudioChunk(samples, chain.sample_rate_hz, chunk.num_frames)

    def _check(self, request: SpeechRequest, model: LoadedModel) -> None:
        """Refuse what no model could speak."""
        limit = self.settings.max_input_characters
        if not request.input.strip():
            raise InvalidRequestError("Input text cannot be empty.", param="input")
        if len(request.input) > limit:
            raise InputTooLongError(len(request.input), limit)
        _check_range("speed", request.speed, MIN_SPEED, MAX_SPEED)
        if request.sample_rate_hz is not None:
            rate_hz = request.sample_rate_hz
            _check_range("sample_rate", rate_hz, MIN_SAMPLE_RATE_HZ, MAX_SAMPLE_RATE_HZ)
        read_options(model.family.options, request.options)
        languages = model.capabilities.languages
        if request.language is not None and request.language.casefold() not in languages:
            allowed = ", ".join(languages) or "none, this model decides by itself"
            raise InvalidRequestError(
                f"Invalid language: '{request.language}'. Available: {allowed}.", param="language"
            )


def _worse(so_far: FinishReason, segment: FinishReason) -> FinishReason:
    """Return the whole's reason: one segment cut by a limit marks all of it.

    Raises:
        EngineError: the segment was dropped although its listener is still there.
    """
    if segment in ("abort", "error"):
        raise EngineError("The model stopped before the end of the text.")
    return segment if so_far == "stop" else so_far


def _check_range(param: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:  # NaN is refused too
        raise InvalidRequestError(
            f"Invalid '{param}': {value}. Allowed: {low} to {high}.", param=param
        )


def _filled(sampling: Sampling, defaults: Sampling) -> Sampling:
    """Return ``sampling`` with the family's defaults where it says nothing."""
    given = {name: value for name, value in asdict(sampling).items() if value is not None}
    return replace(defaults, **given)
