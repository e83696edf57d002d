"""Checks speech requests, resolves their models and voices, and opens their synthesis."""

import logging
import sys
from collections.abc import Awaitable, Callable, Collection, Mapping
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

from antiphon.audio.stretch import MAX_SPEED, MIN_SPEED
from antiphon.concurrency import Workers
from antiphon.config import MAX_LUFS, MIN_LUFS, SpeechSettings
from antiphon.contracts.languages import resolve_language
from antiphon.contracts.prompt import SupportsRequestChecks
from antiphon.contracts.sampling import check_lengths
from antiphon.contracts.types import SpeechRequest, SpeechStream, Voice, new_request_id, new_seed
from antiphon.contracts.well_formed import check_members, check_range, read_options
from antiphon.errors import InputTooLongError, InvalidRequestError
from antiphon.pipeline.model_directory import ModelDirectory
from antiphon.pipeline.reservation import Reservation
from antiphon.pipeline.speech.model import SpeechModel
from antiphon.pipeline.speech.pronunciation import check_pronunciations, settings_pronunciations
from antiphon.pipeline.speech.segment_checkpoint import SegmentCheckpoints
from antiphon.pipeline.speech.segmenter import (
    Lengths,
    LengthSegmenter,
    PackingSegmenter,
    Segmenter,
    SentenceSegmenter,
)
from antiphon.pipeline.speech.text_plan import TextPlanner, normalizer_of
from antiphon.pipeline.speech.text_synthesis import TextSynthesis
from antiphon.pipeline.speech.voice_service import VoiceService
from antiphon.telemetry.metrics import Metrics
from antiphon.voices.store import StoredVoice

logger = logging.getLogger(__name__)

MIN_SAMPLE_RATE_HZ, MAX_SAMPLE_RATE_HZ = 8000, 48000
MAX_VOLUME = 10.0

FIRST_CLAUSE_CHARACTERS = 40
"""Of text that arrives, a first clause of this length is spoken before its sentence is complete."""
SENTENCE_CHARACTERS = 24
"""A sentence that is shorter shares a segment with the next, or it would sound cut off."""

LoadOptions: TypeAlias = Callable[[], Awaitable[Mapping[str, Any]]]

_ANY_LENGTH = sys.maxsize
_NUM_RECORDING_WORKERS = 32
"""Threads of requests with recordings, which do little more than wait until those are encoded."""


class Speech(ModelDirectory[SpeechModel]):
    """Speaks with the served models."""

    def __init__(
        self,
        models: Mapping[str, SpeechModel],
        settings: SpeechSettings,
        metrics: Metrics | None = None,
        uploaded: VoiceService | None = None,
        others: Mapping[str, str] | None = None,
    ) -> None:
        """Serve ``models`` by the name that requests use; the first one is the default.

        Args:
            uploaded: further voices; ``None``: there are none.
            others: Tasks of served models that do not speak, by their names.
        """
        super().__init__(models, settings.model_aliases, "speaks", others)
        self.settings = settings
        self.metrics = metrics or Metrics()
        self.uploaded = uploaded
        name = settings.default_voice
        if models and name and not any(each.own_voice(name, {}) for each in models.values()):
            logger.warning("speech.default_voice: no served model has the voice '%s'", name)
        self._pronunciations = settings_pronunciations(settings.pronunciations)
        self._workers = Workers("speech")
        self.recording_workers = Workers("speech-recordings", _NUM_RECORDING_WORKERS)

    def with_voices(self, uploaded: VoiceService) -> "Speech":
        """Return the same with other voices beside the models' own; all else is shared."""
        view = copy(self)
        view.uploaded = uploaded
        return view

    @property
    def cloning_models(self) -> list[SpeechModel]:
        """Served models that clone voices, in their order."""
        return [each for each in self.models.values() if each.capabilities.cloning]

    def stream(
        self,
        request: SpeechRequest,
        checkpoints: SegmentCheckpoints | None = None,
        load: LoadOptions | None = None,
        *,
        is_checked: bool = False,
    ) -> SpeechStream:
        """Speak a whole text: audio chunks in order, then one `Ended` with the usage.

        Closing the stream stops the work within one step and frees all that it held.

        Args:
            checkpoints: keep its segments; the text may be of any length then.
            load: returns the request's options, recordings as samples; awaited by the stream.
            is_checked: whether the request was checked, without recordings; with ``load`` it was.

        Raises:
            InvalidRequestError: here, or before the first chunk; names the field and what is
                allowed.
            EngineError: the model failed, possibly after some chunks.
        """
        model = self.model(request.model)
        max_characters = _ANY_LENGTH if checkpoints else self.settings.max_input_characters
        if not checkpoints:
            self.check_length(request)
        if not request.input.strip():
            raise InvalidRequestError("Input text cannot be empty.", param="input")
        if not (is_checked or load):
            self.check(request, model)
        num_characters = model.capabilities.max_segment_characters
        is_late = model.capabilities.late_text
        segmenter = (LengthSegmenter if is_late else PackingSegmenter)(num_characters)
        planner = self.planner_of(request, model)(
            segmenter, holds_spaces=not is_late, max_characters=max_characters
        )
        synthesis = self._synthesis(request, model, load)(planner, checkpoints=checkpoints)
        return synthesis.speak(request.input)

    def open(
        self, request: SpeechRequest, *, reads_late: bool = True, is_answer: bool = False
    ) -> TextSynthesis:
        """Start an utterance whose text arrives later; the request's own text is ignored.

        Args:
            reads_late: whether to speak text token by token, if the family can, rather than by
                sentences.
            is_answer: whether a model writes the text, not a client: it may be of any length, and
                have tags of pauses that are none.

        Raises:
            InvalidRequestError: the request cannot be spoken, whatever its text is.
        """
        model = self.model(request.model)
        self.check(request, model)
        request = replace(request, input="")
        max_characters = model.capabilities.max_segment_characters
        reads_late = reads_late and model.capabilities.late_text
        segmenter: Segmenter
        if reads_late:
            segmenter = LengthSegmenter(max_characters)
        else:
            first = Lengths(max=max_characters, min_clause=FIRST_CLAUSE_CHARACTERS)
            shortest = min(SENTENCE_CHARACTERS, max_characters // 2)
            segmenter = SentenceSegmenter(Lengths(max=max_characters, min_sentence=shortest), first)
        planner = self.planner_of(request, model)(
            segmenter,
            strips=not reads_late,
            holds_spaces=not reads_late,
            max_characters=_ANY_LENGTH if is_answer else self.settings.max_input_characters,
            is_answer=is_answer,
        )
        return self._synthesis(request, model)(planner, reads_late=reads_late)

    def check_length(self, request: SpeechRequest) -> None:
        """Refuse a text that is too long for one request, before anything else looks at it.

        Raises:
            InputTooLongError: it is.
        """
        if len(request.input) > self.settings.max_input_characters:
            raise InputTooLongError(len(request.input), self.settings.max_input_characters)

    async def check_voice(self, request: SpeechRequest) -> None:
        """Check a request except for its text; raises InvalidRequestError."""
        model = self.model(request.model)
        self.check(request, model)
        await self.resolve_voice(request, model)

    async def check_room(self, request: SpeechRequest) -> None:
        """Find out whether the model has room for one more listener now; raises OverloadedError."""
        request = replace(request, id=new_request_id(), is_live=True)
        place = Reservation(self.model(request.model), request, self.metrics)
        try:
            await place.take()
        finally:
            await place.release()

    async def resolve_voice(
        self, request: SpeechRequest, model: SpeechModel
    ) -> tuple[SpeechRequest, Voice]:
        """Return the voice, and the request with all that the model needs of an uploaded one.

        Raises:
            InvalidRequestError: there is no such voice, or the model cannot speak with it.
            StorageError: it cannot be read.
        """
        aliases = self.settings.all_voice_aliases
        found = await self._found_voice(request.voice, model)
        if isinstance(found, Voice):
            return request, found
        if self.uploaded is None or found is None:
            names = await self.uploaded.names(model) if self.uploaded else []
            if model.capabilities.brings_voice(request):
                return request, model.capabilities.voices[0]
            raise model.unknown_voice(request.voice, aliases, names)
        cloning = [each.name for each in self.cloning_models]
        return await self.uploaded.prepared(request, found, model, cloning), found.as_voice()

    async def routed(self, request: SpeechRequest, *voices: str | None) -> SpeechRequest:
        """Return a request with the model that speaks it, if it leaves the choice to the server.

        An uploaded voice is spoken by the first model that clones voices where the default one
        does not.

        Args:
            voices: meant instead, if there are any.

        Raises:
            UnservedTaskError: no model speaks.
            StorageError: the uploaded voices cannot be read.
        """
        cloning = self.cloning_models
        if not cloning or not self.is_default(request.model):
            return request
        model = self.model(None)
        if model.capabilities.cloning:
            return request
        for voice in voices or (request.voice,):
            if isinstance(await self._found_voice(voice, model), StoredVoice):
                return replace(request, model=cloning[0].name)
        return request

    async def _found_voice(
        self, name: str | None, model: SpeechModel
    ) -> Voice | StoredVoice | None:
        """Return the model's voice of a name, or the one that was uploaded, if any."""
        aliases = self.settings.all_voice_aliases
        for each in model.spellings(name):
            if (voice := model.own_voice(each, aliases)) is not None:
                return voice
            stored = await self.uploaded.find(each, aliases) if each and self.uploaded else None
            if stored is not None:
                return stored
        return None

    def close(self) -> None:
        """Stop the worker threads."""
        self._workers.close()
        self.recording_workers.close()

    def completed(self, request: SpeechRequest, model: SpeechModel) -> SpeechRequest:
        """Return a request with the defaults of the model and the server."""
        sampling = request.sampling.with_defaults(model.task.sampling)
        if sampling.do_sample is False:
            sampling = replace(sampling, temperature=0.0)
        seed = new_seed() if request.seed is None else request.seed
        language = resolve_language(request.language, model.capabilities.languages)
        given: dict[str, Any] = {"sampling": sampling, "seed": seed, "language": language}
        if request.loudness_lufs is None:
            given["loudness_lufs"] = self.settings.loudness_lufs
        if request.sentence_pause_ms is None:
            given["sentence_pause_ms"] = self.settings.sentence_pause_ms
        return replace(request, **given)

    def _synthesis(
        self, request: SpeechRequest, model: SpeechModel, load: LoadOptions | None = None
    ) -> partial[TextSynthesis]:
        request = self.completed(request, model)

        async def resolve() -> tuple[SpeechRequest, Voice]:
            if load is None:
                return await self.resolve_voice(request, model)
            loaded = replace(request, options=await load())
            self.check(loaded, model)
            return await self.resolve_voice(loaded, model)

        workers = self._workers if load is None else self.recording_workers
        return partial(TextSynthesis, model, request, workers, self.metrics, resolve)

    def planner_of(self, request: SpeechRequest, model: SpeechModel) -> partial[TextPlanner]:
        pronunciations = self._pronunciations.extended(request.pronunciations)
        normalizer = normalizer_of(request, model.capabilities)
        return partial(TextPlanner, pronunciations=pronunciations, normalizer=normalizer)

    def check(
        self, request: SpeechRequest, model: SpeechModel, recordings: Collection[str] = ()
    ) -> None:
        """Refuse what ``model`` could not speak, whatever the text and the voice are.

        Args:
            recordings: names of options that are recordings and still to be loaded.

        Raises:
            InvalidRequestError: names the field and what is allowed.
        """
        texts = {"input": request.input, "voice": request.voice, "model": request.model}
        texts |= {"language": request.language, "instructions": request.instructions}
        check_members({**texts, **request.options, "pronunciations": request.pronunciations})
        check_range("speed", request.speed, MIN_SPEED, MAX_SPEED)
        check_range("volume", request.volume, 0, MAX_VOLUME)
        if (rate_hz := request.sample_rate_hz) is not None:
            check_range("sample_rate", rate_hz, MIN_SAMPLE_RATE_HZ, MAX_SAMPLE_RATE_HZ)
        if isinstance(request.loudness_lufs, float | int):
            check_range("loudness_lufs", request.loudness_lufs, MIN_LUFS, MAX_LUFS)
        read_options(model.task.options, request.options)
        check_pronunciations(request.pronunciations)
        if request.word_timestamps and not model.capabilities.word_times:
            raise InvalidRequestError(
                f"The model '{model.name}' gives no word timestamps: leave 'word_timestamps' out.",
                param="word_timestamps",
            )
        check_lengths(request.sampling, is_drawn=model.capabilities.draws_end)
        resolve_language(request.language, model.capabilities.languages)
        if model.capabilities.sampling is not None:
            model.capabilities.sampling.check(request.sampling)
        if isinstance(model.prompter, SupportsRequestChecks):
            model.prompter.check(request, recordings)
