"""The Python face: load a model, get speech, answers, images, videos; sync or async."""

import asyncio
import functools
import sys
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import ExitStack
from math import inf
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from anyio.from_thread import start_blocking_portal

from antiphon.audio.media_type import media_type_of
from antiphon.audio.recording import Recording, file_content, read_recording
from antiphon.audio.sound_check import check_sound
from antiphon.audio.utterance import Audio, collect
from antiphon.concurrency import LoopCalls
from antiphon.config.sources import load_settings
from antiphon.contracts.chat import CHAT_VOICE
from antiphon.contracts.chat_types import ChatAnswer, ChatEvent, ChatRequest, Message
from antiphon.contracts.picture_types import ImageRequest, VideoRequest
from antiphon.contracts.prepared_voice import PreparedVoice
from antiphon.contracts.prompt import VoicePreparing
from antiphon.contracts.types import AudioChunk, LoadProgress, Samples, SpeechRequest, Voice
from antiphon.contracts.well_formed import check_members
from antiphon.errors import InvalidRequestError
from antiphon.families.registry import SpeechTasks
from antiphon.media.results import ImageResult, VideoResult
from antiphon.pipeline.chat.service import CHAT, Chats
from antiphon.pipeline.model_loading import load_all_tasks
from antiphon.pipeline.pictures.images import Images
from antiphon.pipeline.pictures.service import IMAGE, VIDEO
from antiphon.pipeline.pictures.videos import Videos
from antiphon.pipeline.speech.model import SPEECH, SpeechModel
from antiphon.pipeline.speech.service import Speech
from antiphon.pipeline.speech.voice_service import VoiceService
from antiphon.pipeline.whole_results import StepProgress, WholeResults, chat_request, speech_request
from antiphon.voices.recordings import Recordings
from antiphon.voices.store import NewVoice

__all__ = ["Antiphon", "Audio", "ImageResult", "VideoResult", "collect"]

_PATIENT = {"model.max_waiting": sys.maxsize, "model.max_wait_s": inf, "diffusion.max_wait_s": inf}
"""Waits without a limit: a program's own call has no client that could repeat it."""


class Antiphon(SpeechTasks):
    """A loaded model; may be used from any thread and any event loop.

    All work runs on one event loop in a thread of its own.

    Example:
        >>> from antiphon import Antiphon, SpeechRequest
        >>> with Antiphon.load("hibari") as antiphon:
        ...     antiphon.speech(SpeechRequest("Hello there.")).save("hello.wav")

        A model that chats has `chat` and `chat_stream`, one that draws `image` and `video`:

        >>> with Antiphon.load("Wan-AI/Wan2.1-T2V-1.3B-Diffusers") as antiphon:
        ...     antiphon.video("A cat on a windowsill").save("cat.mp4")
    """

    def __init__(
        self,
        model: str | None = None,
        *,
        progress: LoadProgress | None = None,
        outputs: Sequence[str] = (),
        **settings: Any,
    ) -> None:
        """Load a model.

        Args:
            model: a built-in model, a checkpoint's directory, or its ``ORG/NAME`` on the hub.
            progress: called in other threads while the model loads.
            outputs: kinds of output to serve ("audio", "text", "image", "video"); empty: all.
            settings: those of the ``[model]`` section (device, dtype ...).
        """
        flags: dict[str, Any] = {f"model.{name}": value for name, value in settings.items()}
        if outputs:
            flags["server.output_modalities"] = tuple(outputs)
        loaded_settings = load_settings({**_PATIENT, **flags, "model.source": model})
        self._references = loaded_settings.references
        with ExitStack() as stack:  # what has been opened is closed if the rest cannot be
            portal = stack.enter_context(start_blocking_portal())
            self._calls = LoopCalls(portal.call(asyncio.get_running_loop))
            without = (CHAT_VOICE,)  # nothing here would read it
            load = functools.partial(load_all_tasks, loaded_settings, progress, without)
            served = self._calls.run(load)
            stack.callback(self._calls.run, served.tasks[0].close)
            self.has_task_types = any(
                "task_type" in each.task.options.model_fields for each in served.speech.values()
            )
            recordings = Recordings(loaded_settings.references)
            stack.callback(recordings.close)
            self._uploaded = VoiceService(loaded_settings.data, recordings)
            stack.callback(self._uploaded.close)
            self._speech = Speech(
                served.speech,
                loaded_settings.speech,
                uploaded=self._uploaded,
                others=served.others(SPEECH),
            )
            stack.callback(self._speech.close)
            self._chats = Chats(served.chats, loaded_settings.chat, others=served.others(CHAT))
            stack.callback(self._chats.close)
            images = Images(served.images, loaded_settings.images, others=served.others(IMAGE))
            stack.callback(images.close)
            videos = Videos(served.videos, loaded_settings.videos, others=served.others(VIDEO))
            stack.callback(videos.close)
            self._whole = WholeResults(self._speech, self._chats, images, videos)
            self._exit = stack.pop_all()

    @classmethod
    def load(
        cls,
        model: str | None = None,
        *,
        progress: LoadProgress | None = None,
        outputs: Sequence[str] = (),
        **settings: Any,
    ) -> Self:
        """Load a built-in model or a checkpoint; arguments as of `Antiphon`.

        Raises:
            ModelLoadError: it cannot be served, or makes nothing of ``outputs``.
            SettingsError: a setting is unknown or wrong.
        """
        return cls(model, progress=progress, outputs=outputs, **settings)

    @property
    def _model(self) -> SpeechModel:
        """The model, if it speaks; raises UnservedTaskError if it does not."""
        return self._speech.model(None)

    @property
    def voices(self) -> tuple[Voice, ...]:
        """The voices that this model can speak with; the first is the default."""
        return self._model.capabilities.voices

    def add_voice(
        self,
        name: str,
        recording: str | PathLike[str] | bytes,
        ref_text: str | None = None,
        *,
        consent: str | None = None,
    ) -> Voice:
        """Keep a voice in the data folder, for this process and every server that shares it.

        From then on ``voice=name`` speaks with it. To use a voice without keeping it, see
        `create_voice`.

        Args:
            recording: a file's path, or its content.
            consent: statement of the consent that the speaker gave.

        Raises:
            InvalidRequestError: the recording or the name will not do, or the model clones none.
            StorageError: it could not be kept.
        """
        check_members({"name": name, "ref_text": ref_text, "consent": consent})
        content = recording if isinstance(recording, bytes) else file_content(Path(recording))
        voice = NewVoice(
            name=name,
            content=content,
            media_type=media_type_of(content),
            ref_text=ref_text,
            consent=consent,
        )
        aliases = self._speech.settings.all_voice_aliases
        return self._calls.run(self._uploaded.add, voice, self._model, aliases).as_voice()

    def stream(self, request: SpeechRequest | str) -> Generator[AudioChunk, None, None]:
        """Yield audio as soon as it is made. Closing the generator stops the work."""
        events = self._speech.stream(speech_request(request))
        try:
            while (event := self._calls.run(anext, events, None)) is not None:
                if isinstance(event, AudioChunk):
                    yield event
        finally:
            self._calls.run(events.aclose)

    def speech(self, request: SpeechRequest | str) -> Audio:
        """Return the whole utterance."""
        return self._calls.run(self._whole.speech, request)

    def speeches(self, requests: Sequence[SpeechRequest | str]) -> list[Audio]:
        """Return whole utterances, made at the same time; if one fails, all are given up."""
        return self._calls.run(self._whole.speeches, requests)

    async def astream(self, request: SpeechRequest | str) -> AsyncGenerator[AudioChunk, None]:
        """Do what `stream` does, for asyncio."""
        events = self._speech.stream(speech_request(request))
        try:
            while (event := await self._calls.arun(anext, events, None)) is not None:
                if isinstance(event, AudioChunk):
                    yield event
        finally:
            await self._calls.arun(events.aclose)

    async def aspeech(self, request: SpeechRequest | str) -> Audio:
        """Do what `speech` does, for asyncio."""
        return await self._calls.arun(self._whole.speech, request)

    async def aspeeches(self, requests: Sequence[SpeechRequest | str]) -> list[Audio]:
        """Do what `speeches` does, for asyncio."""
        return await self._calls.arun(self._whole.speeches, requests)

    def chat(self, request: ChatRequest | Sequence[Message] | str) -> ChatAnswer:
        """Return the answer to a conversation, or to one message."""
        return self._calls.run(self._whole.answer, request)

    def chat_stream(
        self, request: ChatRequest | Sequence[Message] | str
    ) -> Generator[ChatEvent, None, None]:
        """Yield text as it becomes certain, then how it ended. Closing stops the work."""
        events = self._chats.stream(chat_request(request))
        try:
            while (event := self._calls.run(anext, events, None)) is not None:
                yield event
        finally:
            self._calls.run(events.aclose)

    async def achat(self, request: ChatRequest | Sequence[Message] | str) -> ChatAnswer:
        """Do what `chat` does, for asyncio."""
        return await self._calls.arun(self._whole.answer, request)

    async def achat_stream(
        self, request: ChatRequest | Sequence[Message] | str
    ) -> AsyncGenerator[ChatEvent, None]:
        """Do what `chat_stream` does, for asyncio."""
        events = self._chats.stream(chat_request(request))
        try:
            while (event := await self._calls.arun(anext, events, None)) is not None:
                yield event
        finally:
            await self._calls.arun(events.aclose)

    def image(
        self, request: ImageRequest | str, progress: StepProgress | None = None
    ) -> ImageResult:
        """Draw an image, or edit those that the request brings."""
        return self._calls.run(self._whole.image, request, progress)

    def video(
        self, request: VideoRequest | str, progress: StepProgress | None = None
    ) -> VideoResult:
        """Make a video."""
        return self._calls.run(self._whole.video, request, progress)

    async def aimage(
        self, request: ImageRequest | str, progress: StepProgress | None = None
    ) -> ImageResult:
        """Do what `image` does, for asyncio."""
        return await self._calls.arun(self._whole.image, request, progress)

    async def avideo(
        self, request: VideoRequest | str, progress: StepProgress | None = None
    ) -> VideoResult:
        """Do what `video` does, for asyncio."""
        return await self._calls.arun(self._whole.video, request, progress)

    def read_recording(self, recording: Recording) -> Samples:
        """Return a recording's samples, at the model's rate; raises InvalidRequestError."""
        rate_hz = self._model.capabilities.sample_rate_hz
        min_duration_s = self._references.min_duration_s
        samples = read_recording(
            recording,
            sample_rate_hz=rate_hz,
            max_duration_s=self._references.max_duration_s,
            min_duration_s=min_duration_s,
        )
        check_sound(samples, rate_hz, min_duration_s)
        return samples

    def prepare_voice(self, recording: Samples, ref_text: str | None, name: str) -> PreparedVoice:
        """Compute what prompts need of a voice; see `create_voice`; raises InvalidRequestError."""
        prompter = self._model.prompter
        if not isinstance(prompter, VoicePreparing):
            raise InvalidRequestError(f"'{self._model.name}' clones no voices.", param="model")
        return prompter.prepare_voice(recording, name=name, ref_text=ref_text)

    def close(self) -> None:
        """Free the model."""
        self._exit.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
