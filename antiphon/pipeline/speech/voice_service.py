"""Uploaded voices: encoded once by the model, stored, and used like built-in voices."""

import logging
from collections.abc import Collection, Mapping
from copy import copy
from dataclasses import replace
from functools import partial

import numpy as np

from antiphon.concurrency import Workers
from antiphon.config import DataSettings
from antiphon.contracts.prepared_voice import PreparedVoice
from antiphon.contracts.prompt import VoicePreparing
from antiphon.contracts.types import OPERATOR, Caller, SpeechRequest
from antiphon.errors import AntiphonError, InvalidRequestError, listed
from antiphon.pipeline.speech.model import DEFAULT_VOICE, SpeechModel
from antiphon.storage.blobs import BlobStore
from antiphon.storage.errors import StorageError
from antiphon.storage.voice_database import VoiceDatabase
from antiphon.voices.cache import PreparedCache, model_identity
from antiphon.voices.consents import ConsentStore
from antiphon.voices.recordings import Recordings
from antiphon.voices.store import NewVoice, StoredVoice, VoiceStore

logger = logging.getLogger(__name__)

_NUM_THREADS = 4
_ANY_RATE_HZ = 16_000


class VoiceService:
    """The voices of a data folder, for the coroutines of one process; others may share the folder.

    Attributes:
        voices: Store as one caller sees it; blocks, see `workers`.
        caller: Caller, who owns what is added.
        workers: threads for whatever blocks here.
    """

    def __init__(self, settings: DataSettings, recordings: Recordings) -> None:
        """Use a data folder; nothing is written before it is needed; raises SettingsError."""
        blobs = None if settings.blobs_url is None else BlobStore(settings.blobs_url)
        min_free_bytes = settings.min_free_mib * 2**20
        self._database = VoiceDatabase(settings.folder, blobs, min_free_bytes=min_free_bytes)
        limit, owner_limit = settings.max_voices, settings.max_owner_voices
        self.voices = VoiceStore(self._database, limit, max_owned_rows=owner_limit)
        self.consents = ConsentStore(self._database, limit, max_owned_rows=owner_limit)
        self.caller = OPERATOR
        self.workers = Workers("voices", _NUM_THREADS)
        self._recordings = recordings
        self._cache = PreparedCache(settings.folder / "prepared")
        self._identities: dict[str, str] = {}

    def seen_by(self, caller: Caller) -> "VoiceService":
        """Return the store as another caller sees it; everything but the caller is shared."""
        view = copy(self)
        view.voices, view.consents = self.voices.seen_by(caller), self.consents.seen_by(caller)
        view.caller = caller
        return view

    async def check(self, *, is_thorough: bool = False) -> None:
        """Find out whether the voices can be read; see `Database.check`; raises StorageError."""
        await self.workers.run(partial(self._database.check, is_thorough=is_thorough))

    async def listed(self) -> list[StoredVoice]:
        """Return all voices that can be read, the oldest first: none if the database is damaged."""
        try:
            return await self.workers.run(self.voices.all)
        except StorageError as error:
            logger.warning("uploaded voices: %s", error.message)
            return []

    async def sweep(self) -> None:
        """Remove what a crash may have left behind; if that cannot be done, log why."""
        try:
            await self.workers.run(self._database.sweep)
            await self.workers.run(self._forget_unused)
        except AntiphonError as error:
            logger.warning("uploaded voices: %s", error.message)

    async def add(
        self, voice: NewVoice, model: SpeechModel, aliases: Collection[str] = ()
    ) -> StoredVoice:
        """Encode a voice and store it; from then on every process can speak with it.

        Args:
            aliases: names of voices that mean something else already.

        Raises:
            InvalidRequestError: the model clones no voices, the recording will not do, the name
                is wrong or taken, or there are too many voices.
            StorageError: it could not be kept, and is not there.
        """
        _check_clones(model, f"The voice '{voice.name}' cannot be uploaded")
        voice = replace(voice, owner=self.caller.owner)
        reserved = _reserved(model, aliases)
        if (same := await self.workers.run(self.voices.check, voice, reserved)) is not None:
            return same
        if voice.consent is not None:
            await self.workers.run(self.consents.check, voice.consent)
        made = await self._made(voice, model)
        stored = await self.workers.run(self.voices.add, voice, reserved)
        await self._keep(stored, made, model)
        return stored

    async def edit(
        self,
        name_or_id: str,
        *,
        name: str | None,
        description: str | None,
        model: SpeechModel,
        aliases: Collection[str] = (),
    ) -> StoredVoice:
        """Change what a voice is called, or its description; ``None`` leaves either as it is.

        Raises:
            UnknownVoiceError: there is none.
            InvalidRequestError: the name is wrong or taken.
            StorageError: the folder cannot be written; nothing has changed.
        """
        reserved = _reserved(model, aliases)
        edit = partial(
            self.voices.edit, name_or_id, name=name, description=description, reserved=reserved
        )
        return await self.workers.run(edit)

    async def delete(self, name_or_id: str) -> StoredVoice:
        """Forget a voice, and all that was made of it.

        Raises:
            UnknownVoiceError: there is none.
            StorageError: the folder cannot be written; the voice is still there.
        """
        voice = await self.workers.run(self.voices.delete, name_or_id)
        await self.workers.run(self._forget_unused)
        return voice

    async def find(self, name: str, aliases: Mapping[str, str]) -> StoredVoice | None:
        """Return the voice of this name, id or alias, if there is one; raises StorageError."""
        alias = aliases.get(name.casefold())

        def found() -> StoredVoice | None:
            voice = self.voices.find(name)
            return voice if voice or alias is None else self.voices.find(alias)

        return await self.workers.run(found)

    async def prepared(
        self,
        request: SpeechRequest,
        stored: StoredVoice,
        model: SpeechModel,
        cloning: Collection[str],
    ) -> SpeechRequest:
        """Return a request with what the model needs to speak with a voice.

        Args:
            cloning: names of served models that clone voices, for the message.

        Raises:
            InvalidRequestError: the model clones no voices, or the request brings one as well.
            StorageError: the voice cannot be read.
        """
        _check_clones(model, f"The uploaded voice '{stored.name}' cannot be used", cloning)
        option = model.task.recordings[0]
        if option in request.options:
            raise InvalidRequestError(
                f"'{option}' and the uploaded voice '{stored.name}' are mutually exclusive: leave"
                " one of the two out.",
                param=option,
            )
        options = {**request.options, option: await self._prepared(stored, model)}
        return replace(request, options=options)

    async def names(self, model: SpeechModel) -> list[str]:
        """Return the names of the voices that the model can speak with."""
        if not model.capabilities.cloning:
            return []
        return [voice.name for voice in await self.listed()]

    async def check_recording(self, recording: bytes) -> None:
        """Decode a recording, to see whether it is one; raises InvalidRequestError."""
        await self._recordings.load(recording, _ANY_RATE_HZ)

    def close(self) -> None:
        """Refuse further calls."""
        self.workers.close()
        self._database.close()

    async def _prepared(self, stored: StoredVoice, model: SpeechModel) -> PreparedVoice:
        identity = await self._identity(model)
        kept = await self.workers.run(self._cache.find, stored.content_hash, identity, stored.name)
        if kept is not None:
            return kept
        try:
            content = await self.workers.run(self.voices.content, stored)
        except StorageError:
            await self.workers.run(self.voices.get, stored.id)  # deleted meanwhile: not found
            raise
        voice = NewVoice(
            name=stored.name, content=content, kind=stored.kind, ref_text=stored.ref_text
        )
        made = await self._made(voice, model)
        await self._keep(stored, made, model)
        return made

    async def _made(self, voice: NewVoice, model: SpeechModel) -> PreparedVoice:
        if voice.kind == "speaker_embedding":
            made = PreparedVoice(
                name=voice.name,
                family=model.family.name,
                speaker_embedding=np.frombuffer(voice.content, "<f4").astype(np.float32),
            )
        else:
            rate_hz = model.capabilities.sample_rate_hz
            samples = await self._recordings.load(voice.content, rate_hz)
            await model.prepare_to_encode({model.task.recordings[0]: samples})
            assert isinstance(model.prompter, VoicePreparing), "cloning families prepare voices"
            prepare = partial(
                model.prompter.prepare_voice, name=voice.name, ref_text=voice.ref_text
            )
            made = await self.workers.run(prepare, samples)
        await self.workers.run(_try, made, model)
        return made

    async def _keep(self, stored: StoredVoice, made: PreparedVoice, model: SpeechModel) -> None:
        identity = await self._identity(model)
        await self.workers.run(self._cache.keep, stored.content_hash, identity, made)

    async def _identity(self, model: SpeechModel) -> str:
        if model.name not in self._identities:
            identity = await self.workers.run(model_identity, model.family.name, model.path)
            self._identities[model.name] = identity
        return self._identities[model.name]

    def _forget_unused(self) -> None:
        everybodys = self.voices.seen_by(OPERATOR).all()
        self._cache.keep_only({voice.content_hash for voice in everybodys})


def _reserved(model: SpeechModel, aliases: Collection[str]) -> set[str]:
    """Return the names that uploaded voices may not have."""
    return {DEFAULT_VOICE, *(each.id for each in model.capabilities.voices), *aliases}


def _check_clones(model: SpeechModel, refusal: str, cloning: Collection[str] = ()) -> None:
    capabilities = model.capabilities
    if not capabilities.cloning:
        own = ", ".join(voice.id for voice in capabilities.voices)
        advice = f"Set 'model' to one that does ({listed(cloning)})"
        raise InvalidRequestError(
            f"{refusal}: the model '{model.name}' clones no voices."
            f" {advice if cloning else 'Serve a checkpoint that does'},"
            f" or choose one of this model's own voices: {own}.",
            param="voice",
            code="voice_not_supported",
        )


def _try(made: PreparedVoice, model: SpeechModel) -> None:
    """Build a prompt with a voice, since only the model knows which voices fit it."""
    capabilities, options = model.capabilities, {model.task.recordings[0]: made}
    request = replace(capabilities.sample_request, sampling=model.task.sampling, options=options)
    model.prompter.build(request, capabilities.voices[0], 0)
