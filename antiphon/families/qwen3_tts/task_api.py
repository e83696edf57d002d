"""Qwen's Python API: speech with built-in, designed and cloned voices, of one text or of many.

An argument that may differ between texts can be a list beside a list of texts.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Literal, TypeAlias, overload

from antiphon.audio.recording import Recording
from antiphon.audio.utterance import Audio
from antiphon.contracts.prepared_voice import PreparedVoice
from antiphon.contracts.types import AudioChunk, Samples, SpeechRequest
from antiphon.errors import InvalidRequestError
from antiphon.families.qwen3_tts.task_requests import requests_of

Texts: TypeAlias = str | list[str] | list[str | None] | None
Recordings: TypeAlias = Recording | list[Recording] | None
Flags: TypeAlias = bool | list[bool]
Voices: TypeAlias = PreparedVoice | list[PreparedVoice] | None
Chunks: TypeAlias = Generator[AudioChunk, None, None]


class SpeechTasks(ABC):
    """Methods named after Qwen's tasks; their twins for asyncio begin with ``a``.

    Every task also takes ``seed`` (one, or a list), ``speed``, ``sample_rate_hz``,
    ``temperature`` (0 is greedy), ``top_k``, ``top_p``, ``repetition_penalty``,
    ``max_new_tokens``, and the options of the model's family. Every task raises
    `InvalidRequestError` if the loaded checkpoint cannot do it, or a field is wrong.
    """

    has_task_types: bool
    """Whether the loaded family has the option ``task_type``."""

    @abstractmethod
    def read_recording(self, recording: Recording) -> Samples:
        """Return a recording's samples, at the model's rate."""

    @abstractmethod
    def prepare_voice(self, recording: Samples, ref_text: str | None, name: str) -> PreparedVoice:
        """Compute what prompts need of a voice."""

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
        """Compute a voice of a recording once, for many requests; the voice can be saved.

        Args:
            ref_audio: a path, a file's content, or (samples, rate in Hz).
            ref_text: what is said in the recording. Without it, the voice imitates how the
                speaker sounds and nothing else.
            name: of the voice.

        Raises:
            InvalidRequestError: the recording will not do, or the model clones no voices.
        """
        return self.prepare_voice(self.read_recording(ref_audio), ref_text, name)

    async def acreate_voice(
        self, ref_audio: Recording, ref_text: str | None = None, name: str = "voice"
    ) -> PreparedVoice:
        """Do what `create_voice` does, in a thread."""
        return await asyncio.to_thread(self.create_voice, ref_audio, ref_text, name)

    def _requests(
        self, task: str, text: str | list[str], each: Mapping[str, Any], more: Mapping[str, Any]
    ) -> list[SpeechRequest]:
        """Return one request a text; a family without task types speaks with built-in voices."""
        named = {} if task == "CustomVoice" and not self.has_task_types else {"task_type": task}
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
            "ref_audio": _each(self.read_recording, ref_audio) if voice is None else voice,
            "ref_text": ref_text,
            # True or nothing, which leaves it to the voice: it may have been prepared so.
            "x_vector_only_mode": _each(lambda flag: flag or None, x_vector_only_mode),
        }


def _each(function: Callable[[Any], Any], value: Any) -> Any:
    """Apply a function to a value, or to each of a list; ``None`` stays."""
    if isinstance(value, list):
        return [function(each) for each in value]
    return None if value is None else function(value)
