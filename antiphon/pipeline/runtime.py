"""A family's declared pipeline made live: its stages loaded, warmed, opened and drained."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Collection, Iterable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from pathlib import Path

from antiphon.config import ModelSettings
from antiphon.engine.admission import AdmissionLimits
from antiphon.errors import UnknownVoiceError
from antiphon.fabric.base import StageHandle, StageItem, StageRequest
from antiphon.fabric.local import LocalFabric
from antiphon.fabric.model_pool import ModelPool, PooledModel
from antiphon.models.base import Piece, Prompter
from antiphon.models.registry import further_names, plain_name, resolve, served_name
from antiphon.models.spec import Capabilities, Family, LoadContext
from antiphon.pipeline.speech.producer import fed
from antiphon.pipeline.stage import build_stage
from antiphon.telemetry.engine_stats import EngineStats
from antiphon.telemetry.stage_status import StageStatus
from antiphon.telemetry.tracing import until_first
from antiphon.types import LoadProgress, SpeechRequest, Voice, new_request_id

logger = logging.getLogger(__name__)

DEFAULT_VOICE = "default"

_WARM_UP_FRAMES = 16


class LoadedModel:
    """A model that is ready to be spoken with."""

    def __init__(
        self,
        name: str,
        family: Family,
        prompter: Prompter,
        pool: ModelPool,
        stages: PooledModel,
        *,
        path: Path | None = None,
        further_names: Collection[str] = (),
    ) -> None:
        """Wrap what has been loaded.

        Args:
            name: that requests use.
            family: of the model.
            prompter: of the model.
            pool: loads its stages.
            stages: that the pool loads.
            path: of its checkpoint, if it has one.
            further_names: that requests may use too; they are told to nobody.
        """
        self.name = name
        self.family = family
        self.prompter = prompter
        self.fabric = pool.fabric
        self._pool = pool
        self._stages = stages
        self.path = path
        self._further_names = frozenset(further_names)

    @classmethod
    async def load(
        cls,
        settings: ModelSettings,
        *,
        is_colocated: bool = True,
        progress: LoadProgress | None = None,
        pool: ModelPool | None = None,
    ) -> "LoadedModel":
        """Load a model's prompter and stages, off the event loop.

        Args:
            settings: which, and on what.
            is_colocated: whether all stages share an engine, as one device wants it; otherwise
                each is driven by itself, and frames travel between them.
            progress: told, in other threads, how far it is.
            pool: that loads the stages, now or later; default: they are loaded now, into this
                process.

        Raises:
            ModelLoadError: no family serves it, or its checkpoint is wrong.
        """
        family, path = await asyncio.to_thread(resolve, settings.source)
        context = LoadContext(
            path,
            settings.device,
            settings.dtype,
            settings.max_slots,
            cache_bytes=None if settings.cache_gib is None else int(settings.cache_gib * 2**30),
            is_deterministic=settings.deterministic,
            admission=AdmissionLimits(
                max_waiting=settings.max_waiting,
                max_wait_s=settings.max_wait_s,
                max_load=settings.max_load,
            ),
            progress=progress,
        )
        prompter: Prompter = await asyncio.to_thread(family.prompter.resolve(), context)
        groups = [family.pipeline.stages]
        if not is_colocated:
            groups = [(spec,) for spec in family.pipeline.stages]
        stages = PooledModel(groups, context)
        if pool is None:
            pool = ModelPool(LocalFabric(build_stage))
            pool.add(stages)
            await pool.preload()
        else:
            pool.add(stages)
        name = settings.name or served_name(settings.source)
        further = further_names(settings.source, path)
        return cls(name, family, prompter, pool, stages, path=path, further_names=further)

    def answers_to(self, name: str) -> bool:
        """Whether a request means this model by a name that is not the served one."""
        return plain_name(name) in self._further_names

    @property
    def capabilities(self) -> Capabilities:
        return self.prompter.capabilities

    @property
    def status(self) -> StageStatus:
        """What its stages have published last; the empty status while they are not loaded."""
        return StageStatus.merged(self.fabric.status(each) for each in self._stages.handles)

    def engine_stats(self) -> Iterator[tuple[str, EngineStats]]:
        """Yield the name of each loaded stage that counts, and its latest statistics."""
        for specs, handle in zip(self._stages.groups, self._stages.handles, strict=False):
            if (stats := self.fabric.status(handle).stats) is not None:
                yield "+".join(spec.name for spec in specs), stats

    def voice(self, name: str | None, aliases: Mapping[str, str]) -> Voice:
        """Return the voice of this name, in any case, or that the name is an alias of.

        Raises:
            UnknownVoiceError: there is none.
        """
        found = self.own_voice(name, aliases)
        if found is None:
            raise self.unknown_voice(name, aliases)
        return found

    def own_voice(self, name: str | None, aliases: Mapping[str, str]) -> Voice | None:
        """Return the voice of this name or alias, if it is one that the model comes with."""
        voices = self.capabilities.voices
        wanted = (name or DEFAULT_VOICE).casefold()
        by_id = {voice.id.casefold(): voice for voice in voices}
        for candidate in (wanted, aliases.get(wanted, "").casefold()):
            if candidate == DEFAULT_VOICE:
                return voices[0]
            if candidate in by_id:
                return by_id[candidate]
        return None

    def nameless_voice(
        self, request: SpeechRequest, aliases: Mapping[str, str], uploaded: Iterable[str] = ()
    ) -> Voice:
        """Return the voice of a request whose name for it nobody has.

        Args:
            request: that may bring its voice by other means.
            aliases: names of voices.
            uploaded: names of further voices, for the message.

        Raises:
            UnknownVoiceError: the name is all that there is.
        """
        if self.capabilities.brings_voice(request):
            return self.capabilities.voices[0]
        raise self.unknown_voice(request.voice, aliases, uploaded)

    def unknown_voice(
        self, name: str | None, aliases: Mapping[str, str], uploaded: Iterable[str] = ()
    ) -> UnknownVoiceError:
        """Return the error for a voice that is not among the model's own and those uploaded."""
        own = (voice.id for voice in self.capabilities.voices)
        return UnknownVoiceError(name or "", [*own, *uploaded, *aliases])

    async def open(
        self, request: StageRequest, text: AsyncGenerator[Piece, None] | None = None
    ) -> AsyncGenerator[StageItem, None]:
        """Open a request's stream through all stages.

        Args:
            request: whose prompt holds all of the text, or its beginning.
            text: the rest of a text that is still arriving, the last piece closing it; closed with
                the stream.
        """
        async with self._pool.held(self._stages) as handles:
            *upstream, last = handles
            stream = self.fabric.open(last, replace(request, upstream=tuple(upstream)))
            if text is not None:
                stream = fed(stream, partial(self._feed, handles[0], request.id, text))
            async with aclosing(until_first("first chunk", stream)) as items:
                async for item in items:
                    yield item

    async def _feed(
        self, handle: StageHandle, request_id: str, text: AsyncGenerator[Piece, None]
    ) -> None:
        is_open = True
        async with aclosing(text):
            async for piece in text:
                self.fabric.append(handle, request_id, piece)
                is_open = piece.num_frames_allowed is not None
        assert not is_open, "the last piece closes the text"

    async def warm_up(self) -> None:
        """Speak a few words to nobody, so that the first listener does not wait for caches."""
        sampling = replace(self.family.sampling, max_frames=_WARM_UP_FRAMES)
        request = replace(self.capabilities.sample_request, sampling=sampling)
        voice = self.capabilities.voices[0]
        prompt = await asyncio.to_thread(self.prompter.build, request, voice, 0)
        async with aclosing(self.open(StageRequest(new_request_id(), prompt))) as stream:
            async for _ in stream:
                pass
        logger.info("%s is warm", self.name)

    async def close(self) -> None:
        """Free everything."""
        await self._pool.remove(self._stages)
