"""The whole journey of a speech request: text, prompt, stages, transforms, chunks."""

import sys
from collections.abc import Collection, Mapping
from contextlib import aclosing
from copy import copy
from dataclasses import replace

from antiphon.concurrency import Workers
from antiphon.config import SpeechSettings
from antiphon.errors import InputTooLongError, InvalidRequestError, UnknownModelError
from antiphon.models.base import RequestChecking
from antiphon.models.options import read_options
from antiphon.pipeline.speech.model import DEFAULT_VOICE, LoadedModel
from antiphon.pipeline.speech.pronunciation import check_pronunciations, settings_pronunciations
from antiphon.pipeline.speech.synthesis import SegmentSource, Synthesis
from antiphon.pipeline.speech.voice_service import VoiceService
from antiphon.pipeline.speech.voice_spellings import other_spellings
from antiphon.pipeline.speech.well_formed import check_unicode
from antiphon.telemetry.metrics import Metrics
from antiphon.types import SpeechRequest, SpeechStream, Voice, new_seed

MIN_SPEED, MAX_SPEED = 0.25, 4.0
MIN_SAMPLE_RATE_HZ, MAX_SAMPLE_RATE_HZ = 8000, 48000

_ANY_LENGTH = sys.maxsize


class Speech:
    """Speaks with the served models."""

    def __init__(
        self,
        models: Mapping[str, LoadedModel],
        settings: SpeechSettings,
        metrics: Metrics | None = None,
        uploaded: VoiceService | None = None,
    ) -> None:
        """Serve ``models`` by name; the first one is the default.

        Args:
            models: by the name that requests use.
            settings: what is accepted.
            metrics: count what is done.
            uploaded: voices beside the models' own; ``None`` for none.
        """
        self.models = models
        self.settings = settings
        self.metrics = metrics or Metrics()
        self.uploaded = uploaded
        self._pronunciations = settings_pronunciations(settings.pronunciations)
        self._workers = Workers("speech")

    def with_voices(self, uploaded: VoiceService) -> "Speech":
        """Return the same with other voices beside the models' own; all else is shared."""
        view = copy(self)
        view.uploaded = uploaded
        return view

    @property
    def workers(self) -> Workers:
        """The threads for what prompts and transforms take."""
        return self._workers

    def model(self, name: str | None) -> LoadedModel:
        """Return the served model of this name or alias.

        Raises:
            UnknownModelError: there is none.
        """
        default = next(iter(self.models))
        wanted = name or DEFAULT_VOICE
        if wanted not in self.models:  # what is served is no alias
            wanted = self.settings.model_aliases.get(wanted, wanted)
        if wanted == DEFAULT_VOICE:
            wanted = default
        if wanted in self.models:
            return self.models[wanted]
        for model in self.models.values():
            if model.answers_to(wanted):
                return model
        raise UnknownModelError(wanted, [*self.models, *self.settings.model_aliases])

    def stream(self, request: SpeechRequest, source: SegmentSource | None = None) -> SpeechStream:
        """Speak: audio chunks in order, then one `Ended` with the usage.

        Closing the stream stops the work within one step and frees all that it held.

        Args:
            request: says what.
            source: where its segments come from; ``None`` for the model. Whoever brings one
                decides how long a text may be.

        Raises:
            InvalidRequestError: here, or before the first chunk; names the field and what is
                allowed.
            EngineError: the model failed, possibly after some chunks.
        """
        model = self.model(request.model)
        aliases = self.settings.voice_aliases
        self._check_text(request.input, _ANY_LENGTH if source else None)
        self.check(request, model)
        voice = model.own_voice(request.voice, aliases)
        if voice is None and self.uploaded is None:
            voice = self._similar_voice(request, model)
        sampling = request.sampling.with_defaults(model.task.sampling)
        seed = new_seed() if request.seed is None else request.seed
        request = replace(request, sampling=sampling, seed=seed)
        if voice is None:
            return self._cast_journey(request, model, source)
        return self.metrics.observed(model.name, self._journey(request, voice, model, source))

    async def cast(self, request: SpeechRequest, model: LoadedModel) -> tuple[SpeechRequest, Voice]:
        """Find who speaks; for a voice that was uploaded, the request gets what it needs.

        Raises:
            InvalidRequestError: there is no such voice, or the model cannot speak with it.
            StorageError: it cannot be read.
        """
        aliases = self.settings.voice_aliases
        if (voice := model.own_voice(request.voice, aliases)) is not None:
            return request, voice
        if self.uploaded is None:
            return request, self._similar_voice(request, model)
        for name in (request.voice, *other_spellings(request.voice)):
            if (voice := model.own_voice(name, aliases)) is not None:
                return request, voice
            if await self.uploaded.has(name, aliases):
                request = replace(request, voice=name)
                break
        return await self.uploaded.cast(request, model, aliases)

    def close(self) -> None:
        """Stop the worker threads."""
        self._workers.close()

    async def _cast_journey(
        self, request: SpeechRequest, model: LoadedModel, source: SegmentSource | None
    ) -> SpeechStream:
        """Find the voice as a part of the stream: that takes a look at the disk."""
        request, voice = await self.cast(request, model)
        journey = self._journey(request, voice, model, source)
        events = self.metrics.observed(model.name, journey, voice_kind=voice.kind)
        async with aclosing(events):
            async for event in events:
                yield event

    def _journey(
        self,
        request: SpeechRequest,
        voice: Voice,
        model: LoadedModel,
        source: SegmentSource | None,
    ) -> SpeechStream:
        """Speak in a voice that has been found."""
        journey = Synthesis(
            request=request,
            voice=voice,
            model=model,
            workers=self._workers,
            pronunciations=self._pronunciations,
            max_characters=_ANY_LENGTH if source else self.settings.max_input_characters,
            source=source,
        )
        return journey.events()

    def _similar_voice(self, request: SpeechRequest, model: LoadedModel) -> Voice:
        """Return the voice of the model that another spelling of a name tells, or that needs none.

        Raises:
            UnknownVoiceError: there is none.
        """
        aliases = self.settings.voice_aliases
        for each in other_spellings(request.voice):
            if (voice := model.own_voice(each, aliases)) is not None:
                return voice
        return model.nameless_voice(request, aliases)

    def _check_text(self, text: str, limit: int | None) -> None:
        limit = limit or self.settings.max_input_characters
        if not text.strip():
            raise InvalidRequestError("Input text cannot be empty.", param="input")
        if len(text) > limit:
            raise InputTooLongError(len(text), limit)

    def check(
        self, request: SpeechRequest, model: LoadedModel, recordings: Collection[str] = ()
    ) -> None:
        """Refuse what ``model`` could not speak, whatever the text and the voice are.

        Args:
            request: what is asked for.
            model: that is to speak it.
            recordings: names of options that are recordings and still to be loaded.

        Raises:
            InvalidRequestError: names the field and what is allowed.
        """
        check_unicode(request)
        _check_range("speed", request.speed, MIN_SPEED, MAX_SPEED)
        if request.sample_rate_hz is not None:
            rate_hz = request.sample_rate_hz
            _check_range("sample_rate", rate_hz, MIN_SAMPLE_RATE_HZ, MAX_SAMPLE_RATE_HZ)
        read_options(model.task.options, request.options)
        check_pronunciations(request.pronunciations)
        if request.word_timestamps and not model.capabilities.word_times:
            raise InvalidRequestError(
                f"The model '{model.name}' cannot tell when words are spoken: leave"
                " 'word_timestamps' out.",
                param="word_timestamps",
            )
        languages = model.capabilities.languages
        if request.language is not None and request.language.casefold() not in languages:
            allowed = ", ".join(languages) or "none, this model decides by itself"
            raise InvalidRequestError(
                f"Invalid 'language': '{request.language[:80]}'. Available: {allowed}.",
                param="language",
            )
        if isinstance(model.prompter, RequestChecking):
            model.prompter.check(request, recordings)


def _check_range(param: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:  # NaN is refused too
        raise InvalidRequestError(
            f"Invalid '{param}': {value}. Allowed: {low} to {high}.", param=param
        )
