"""Tasks by name: speech with built-in, designed and cloned voices, one text or many.

Whatever may differ between texts can be a list beside a list of texts.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping, Sequence
from typing import Any, Literal, TypeAlias, overload

from antiphon.audio.recording import Recording, read_recording
from antiphon.audio.utterance import Audio
from antiphon.config import ReferenceSettings
from antiphon.errors import InvalidRequestError
from antiphon.models.base import VoicePreparing
from antiphon.models.prepared import PreparedVoice
from antiphon.offline_requests import requests_of
from antiphon.pipeline.runtime import LoadedModel
from antiphon.types import AudioChunk, Samples, SpeechRequest

Texts: TypeAlias = str | list[str] | list[str | None] | None
Recordings: TypeAlias = Recording | list[Recording] | None
Flags: TypeAlias = bool | list[bool]
Voices: TypeAlias = PreparedVoice | list[PreparedVoice] | None
Chunks: TypeAlias = Generator[AudioChunk, None, None]


class SpeechTasks(ABC):
    """What can be asked of a model by the name of a task; twins for asyncio begin with ``a``.

    Every task also takes ``seed`` (one, or a list), ``speed``, ``sample_rate_hz``,
    ``temperature`` (0 is greedy), ``top_k``, ``top_p``, ``repetition_penalty``,
    ``max_new_tokens``, and the options of the model's family. Every task raises
    `InvalidRequestError` if the loaded checkpoint cannot do it, or a field is wrong.
    """

    _model: LoadedModel
    _references: ReferenceSettings

    @abstractmethod
    def stream(self, request: SpeechRequest | str) -> Chunks:
        """Yield audio as soon as it is made."""

    @abstractmethod
    def speeches(self, requests: Sequence[SpeechRequest | str]) -> list[Audio]:
        """Return whole utterances, made at the same time."""

    @abstractmethod
    async def aspeeches(self, requests: Sequence[SpeechRequest | str]) -> list[Audio]:
        """Return whole utterances, made at the same time."""

    @overload
    def generate_custom_voice(
        self,
        text: str,
        speaker: str | None = None,
        language: str | None = None,
        instruct: str | None = None,
        *,
        stream: Literal[False] = False,
        **more: Any,
    ) -> Audio: ...
    @overload
    def generate_custom_voice(
        self,
        text: str,
        speaker: str | None = None,
        language: str | None = None,
        instruct: str | None = None,
        *,
        stream: Literal[True],
        **more: Any,
    ) -> Chunks: ...
    @overload
    def generate_custom_voice(
        self,
        text: list[str],
        speaker: Texts = None,
        language: Texts = None,
        instruct: Texts = None,
        **more: Any,
    ) -> list[Audio]: ...
    def generate_custom_voice(
        self,
        text: str | list[str],
        speaker: Texts = None,
        language: Texts = None,
        instruct: Texts = None,
        *,
        stream: bool = False,
        **more: Any,
    ) -> Audio | list[Audio] | Chunks:
        """Speak with a built-in voice.

        Args:
            text: what to say.
            speaker: a voice's id; ``None`` is the first.
            language: ``None`` lets the model decide.
            instruct: how to speak, for checkpoints that take instructions.
            stream: yield the audio of one text while it is made.
            more: see the class.
        """
        each = {"voice": speaker, "language": language, "instructions": instruct}
        return self._spoken(self._requests("CustomVoice", text, each, more), text, stream=stream)

    @overload
    async def agenerate_custom_voice(
        self,
        text: str,
        speaker: str | None = None,
        language: str | None = None,
        instruct: str | None = None,
        **more: Any,
    ) -> Audio: ...
    @overload
    async def agenerate_custom_voice(
        self,
        text: list[str],
        speaker: Texts = None,
        language: Texts = None,
        instruct: Texts = None,
        **more: Any,
    ) -> list[Audio]: ...
    async def agenerate_custom_voice(
        self,
        text: str | list[str],
        speaker: Texts = None,
        language: Texts = None,
        instruct: Texts = None,
        **more: Any,
    ) -> Audio | list[Audio]:
        """Do what `generate_custom_voice` does; to stream, use `astream`."""
        each = {"voice": speaker, "language": language, "instructions": instruct}
        return await self._aspoken(self._requests("CustomVoice", text, each, more), text)

    @overload
    def generate_voice_design(
        self,
        text: str,
        instruct: str,
        language: str | None = None,
        *,
        stream: Literal[False] = False,
        **more: Any,
    ) -> Audio: ...
    @overload
    def generate_voice_design(
        self,
        text: str,
        instruct: str,
        language: str | None = None,
        *,
        stream: Literal[True],
        **more: Any,
    ) -> Chunks: ...
    @overload
    def generate_voice_design(
        self, text: list[str], instruct: str | list[str], language: Texts = None, **more: Any
    ) -> list[Audio]: ...
    def generate_voice_design(
        self,
        text: str | list[str],
        instruct: str | list[str],
        language: Texts = None,
        *,
        stream: bool = False,
        **more: Any,
    ) -> Audio | list[Audio] | Chunks:
        """Speak with a voice that is described in words.

        Args:
            text: what to say.
            instruct: what the voice is like.
            language: ``None`` lets the model decide.
            stream: yield the audio of one text while it is made.
            more: see the class.
        """
        each = {"instructions": instruct, "language": language}
        return self._spoken(self._requests("VoiceDesign", text, each, more), text, stream=stream)

    @overload
    async def agenerate_voice_design(
        self, text: str, instruct: str, language: str | None = None, **more: Any
    ) -> Audio: ...
    @overload
    async def agenerate_voice_design(
        self, text: list[str], instruct: str | list[str], language: Texts = None, **more: Any
    ) -> list[Audio]: ...
    async def agenerate_voice_design(
        self,
        text: str | list[str],
        instruct: str | list[str],
        language: Texts = None,
        **more: Any,
    ) -> Audio | list[Audio]:
        """Do what `generate_voice_design` does; to stream, use `astream`."""
        each = {"instructions": instruct, "language": language}
        return await self._aspoken(self._requests("VoiceDesign", text, each, more), text)

    @overload
    def generate_voice_clone(
        self,
        text: str,
        ref_audio: Recording | None = None,
        ref_text: str | None = None,
        x_vector_only_mode: bool = False,
        voice: PreparedVoice | None = None,
        *,
        stream: Literal[False] = False,
        **more: Any,
    ) -> Audio: ...
    @overload
    def generate_voice_clone(
        self,
        text: str,
        ref_audio: Recording | None = None,
        ref_text: str | None = None,
        x_vector_only_mode: bool = False,
        voice: PreparedVoice | None = None,
        *,
        stream: Literal[True],
        **more: Any,
    ) -> Chunks: ...
    @overload
    def generate_voice_clone(
        self,
        text: list[str],
        ref_audio: Recordings = None,
        ref_text: Texts = None,
        x_vector_only_mode: Flags = False,
        voice: Voices = None,
        **more: Any,
    ) -> list[Audio]: ...
    def generate_voice_clone(
        self,
        text: str | list[str],
        ref_audio: Recordings = None,
        ref_text: Texts = None,
        x_vector_only_mode: Flags = False,
        voice: Voices = None,
        *,
        stream: bool = False,
        **more: Any,
    ) -> Audio | list[Audio] | Chunks:
        """Speak with the voice of a recording.

        Args:
            text: what to say.
            ref_audio: a recording of the voice: a path, a file's content, or (samples, rate in Hz).
            ref_text: what is said in the recording.
            x_vector_only_mode: imitate how the speaker sounds and nothing else; needs no
                ``ref_text``.
            voice: of `create_voice`, instead of a recording. ``speaker_embedding`` among ``more``
                is the third way.
            stream: yield the audio of one text while it is made.
            more: see the class; ``language`` is among it and may be a list.
        """
        each = self._clone_fields(ref_audio, ref_text, x_vector_only_mode, voice)
        return self._spoken(self._requests("Base", text, each, more), text, stream=stream)

    @overload
    async def agenerate_voice_clone(
        self,
        text: str,
        ref_audio: Recording | None = None,
        ref_text: str | None = None,
        x_vector_only_mode: bool = False,
        voice: PreparedVoice | None = None,
        **more: Any,
    ) -> Audio: ...
    @overload
    async def agenerate_voice_clone(
        self,
        text: list[str],
        ref_audio: Recordings = None,
        ref_text: Texts = None,
        x_vector_only_mode: Flags = False,
        voice: Voices = None,
        **more: Any,
    ) -> list[Audio]: ...
    async def agenerate_voice_clone(
        self,
        text: str | list[str],
        ref_audio: Recordings = None,
        ref_text: Texts = None,
        x_vector_only_mode: Flags = False,
        voice: Voices = None,
        **more: Any,
    ) -> Audio | list[Audio]:
        """Do what `generate_voice_clone` does; to stream, use `astream`."""
        each = await asyncio.to_thread(
            self._clone_fields, ref_audio, ref_text, x_vector_only_mode, voice
        )
        return await self._aspoken(self._requests("Base", text, each, more), text)

    def create_voice(
        self, ref_audio: Recording, ref_text: str | None = None, name: str = "voice"
    ) -> PreparedVoice:
        """Hear a recording once, to speak with its voice often; the voice can be saved.

        Args:
            ref_audio: a path, a file's content, or (samples, rate in Hz).
            ref_text: what is said in the recording. Without it, the voice imitates how the
                speaker sounds and nothing else.
            name: of the voice.

        Raises:
            InvalidRequestError: the recording will not do, or the model clones no voices.
        """
        prompter = self._model.prompter
        if not isinstance(prompter, VoicePreparing):
            raise InvalidRequestError(f"'{self._model.name}' clones no voices.", param="model")
        return prompter.prepare_voice(self._read(ref_audio), name=name, ref_text=ref_text)

    async def acreate_voice(
        self, ref_audio: Recording, ref_text: str | None = None, name: str = "voice"
    ) -> PreparedVoice:
        """Do what `create_voice` does, in a thread."""
        return await asyncio.to_thread(self.create_voice, ref_audio, ref_text, name)

    def _requests(
        self, task: str, text: str | list[str], each: Mapping[str, Any], more: Mapping[str, Any]
    ) -> list[SpeechRequest]:
        """Return one request a text; what every model can do needs no task to be named."""
        has_tasks = "task_type" in self._model.family.options.model_fields
        named = {} if task == "CustomVoice" and not has_tasks else {"task_type": task}
        return requests_of(text, each, {**named, **more})

    def _spoken(
        self, requests: list[SpeechRequest], text: str | list[str], *, stream: bool
    ) -> Audio | list[Audio] | Chunks:
        if isinstance(text, list):
            if stream:
                raise InvalidRequestError("Only one text can be streamed.", param="stream")
            return self.speeches(requests)
        return self.stream(requests[0]) if stream else self.speeches(requests)[0]

    async def _aspoken(
        self, requests: list[SpeechRequest], text: str | list[str]
    ) -> Audio | list[Audio]:
        spoken = await self.aspeeches(requests)
        return spoken if isinstance(text, list) else spoken[0]

    def _clone_fields(
        self, ref_audio: Recordings, ref_text: Texts, x_vector_only_mode: Flags, voice: Voices
    ) -> dict[str, Any]:
        """Read the recordings."""
        if voice is not None and ref_audio is not None:
            raise InvalidRequestError(
                "'voice' and 'ref_audio' are mutually exclusive.", param="ref_audio"
            )
        return {
            "ref_audio": self._heard(ref_audio) if voice is None else voice,
            "ref_text": ref_text,
            "x_vector_only_mode": _if_true(x_vector_only_mode),
        }

    def _heard(self, recordings: Recordings) -> "Samples | list[Samples] | None":
        if isinstance(recordings, list):
            return [self._read(recording) for recording in recordings]
        return None if recordings is None else self._read(recordings)

    def _read(self, recording: Recording) -> Samples:
        return read_recording(
            recording,
            sample_rate_hz=self._model.capabilities.sample_rate_hz,
            max_duration_s=self._references.max_duration_s,
            min_duration_s=self._references.min_duration_s,
        )


def _if_true(flags: Flags) -> Any:
    """Return true or nothing, which leaves it to the voice: it may have been prepared so."""
    if isinstance(flags, list):
        return [flag or None for flag in flags]
    return flags or None
