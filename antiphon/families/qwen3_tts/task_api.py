"""Qwen's Python API: speech with built-in, designed and cloned voices, for one text or several.

With a list of texts, an argument that may differ between texts can be a list too.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import wraps
from inspect import unwrap
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, cast, overload

from antiphon.audio.recording import Recording
from antiphon.audio.utterance import Audio
from antiphon.contracts.prepared_voice import PreparedVoice
from antiphon.contracts.sampling import NEW_TOKENS, Sampling, max_frames_of, names_of
from antiphon.contracts.types import AudioChunk, Samples, SpeechRequest
from antiphon.errors import InvalidRequestError, invalid

Texts: TypeAlias = str | list[str] | list[str | None] | None
Recordings: TypeAlias = Recording | list[Recording] | None
Flags: TypeAlias = bool | list[bool]
Voices: TypeAlias = PreparedVoice | list[PreparedVoice] | None
Chunks: TypeAlias = Generator[AudioChunk, None, None]
TaskT = TypeVar("TaskT", covariant=True)


class TextTask(Protocol):
    """Task of one text or of several; fields are those of the decorated method."""

    @overload
    def __call__(
        self, text: str, *fields: Any, stream: Literal[False] = False, **more: Any
    ) -> Audio: ...
    @overload
    def __call__(self, text: str, *fields: Any, stream: Literal[True], **more: Any) -> Chunks: ...
    @overload
    def __call__(self, text: list[str], *fields: Any, **more: Any) -> list[Audio]: ...


class AsyncTextTask(Protocol):
    """Asynchronous `TextTask`."""

    @overload
    async def __call__(self, text: str, *fields: Any, **more: Any) -> Audio: ...
    @overload
    async def __call__(self, text: list[str], *fields: Any, **more: Any) -> list[Audio]: ...


class Bound(Protocol[TaskT]):
    """Method of a class that is a task of its instances."""

    def __get__(self, instance: object, owner: type | None = None) -> TaskT: ...


def text_task(requests: Callable[..., list[SpeechRequest]]) -> Bound[TextTask]:
    """Return the task that speaks the requests that a method makes of its fields."""

    @wraps(requests)
    def speak(
        self: "SpeechTasks", text: str | list[str], *fields: Any, stream: bool = False, **more: Any
    ) -> Audio | list[Audio] | Chunks:
        made = requests(self, text, *fields, **more)
        if not isinstance(text, list):
            return self.stream(made[0]) if stream else self.speeches(made)[0]
        if stream:
            raise InvalidRequestError("Only one text can be streamed.", param="stream")
        return self.speeches(made)

    return cast("Bound[TextTask]", speak)


def asynchronous(task: Bound[TextTask]) -> Bound[AsyncTextTask]:
    """Return an asynchronous version of a task; to stream, use `Antiphon.astream`."""
    requests: Callable[..., list[SpeechRequest]] = unwrap(cast("Callable[..., Any]", task))

    @wraps(requests)
    async def speak(
        self: "SpeechTasks", text: str | list[str], *fields: Any, **more: Any
    ) -> Audio | list[Audio]:
        made = await asyncio.to_thread(requests, self, text, *fields, **more)
        spoken = await self.aspeeches(made)
        return spoken if isinstance(text, list) else spoken[0]

    speak.__name__ = f"a{requests.__name__}"
    return cast("Bound[AsyncTextTask]", speak)


class SpeechTasks(ABC):
    """Methods named after Qwen's tasks; their asyncio versions begin with ``a``.

    Every task also takes ``seed`` (one, or a list), ``speed``, ``sample_rate_hz``,
    ``temperature`` (0 is greedy), ``top_k``, ``top_p``, ``repetition_penalty``,
    ``max_new_tokens``, and the options of the model's family. Every task raises
    `InvalidRequestError` if the loaded checkpoint cannot do it, or a field is wrong. With
    ``stream``, except in asyncio, the audio of one text is yielded during generation.
    """

    has_task_types: bool
    """Whether the loaded family has the option ``task_type``."""

    @abstractmethod
    def read_recording(self, recording: Recording) -> Samples:
        """Return a recording's samples, at the model's rate."""

    @abstractmethod
    def prepare_voice(self, recording: Samples, ref_text: str | None, name: str) -> PreparedVoice:
        """Prepare a voice for prompts."""

    @abstractmethod
    def stream(self, request: SpeechRequest | str) -> Chunks:
        """Yield audio as soon as it is generated."""

    @abstractmethod
    def speeches(self, requests: Sequence[SpeechRequest | str]) -> list[Audio]:
        """Return whole utterances, generated concurrently."""

    @abstractmethod
    async def aspeeches(self, requests: Sequence[SpeechRequest | str]) -> list[Audio]:
        """Return whole utterances, generated concurrently."""

    @text_task
    def generate_custom_voice(
        self,
        text: str | list[str],
        speaker: Texts = None,
        language: Texts = None,
        instruct: Texts = None,
        **more: Any,
    ) -> list[SpeechRequest]:
        """Speak with a built-in voice.

        Args:
            speaker: id of a voice; ``None`` is the first.
            language: language; ``None`` lets the model decide.
            instruct: instructions on how to speak, for checkpoints that take them.
            more: further arguments of the class.
        """
        each = {"voice": speaker, "language": language, "instructions": instruct}
        return self._requests("CustomVoice", text, each, more)

    @text_task
    def generate_voice_design(
        self, text: str | list[str], instruct: str | list[str], language: Texts = None, **more: Any
    ) -> list[SpeechRequest]:
        """Speak with a voice described in words.

        Args:
            language: language; ``None`` lets the model decide.
            more: further arguments of the class.
        """
        each = {"instructions": instruct, "language": language}
        return self._requests("VoiceDesign", text, each, more)

    @text_task
    def generate_voice_clone(
        self,
        text: str | list[str],
        ref_audio: Recordings = None,
        ref_text: Texts = None,
        x_vector_only_mode: Flags = False,
        voice: Voices = None,
        **more: Any,
    ) -> list[SpeechRequest]:
        """Speak with the voice of a recording.

        Args:
            ref_audio: recording of the voice: a path, a file's content, or (samples, rate in Hz).
            x_vector_only_mode: whether to imitate only the speaker's timbre; needs no ``ref_text``.
            voice: voice from `create_voice`, instead of a recording. ``speaker_embedding`` in
                ``more`` is a third way.
            more: further arguments of the class; ``language`` may be a list.
        """
        if voice is not None and ref_audio is not None:
            raise InvalidRequestError(
                "'voice' and 'ref_audio' are mutually exclusive.", param="ref_audio"
            )
        each = {
            "ref_audio": _each(self.read_recording, ref_audio) if voice is None else voice,
            "ref_text": ref_text,
            # True or None; None leaves it to the voice, which may have been prepared so.
            "x_vector_only_mode": _each(lambda flag: flag or None, x_vector_only_mode),
        }
        return self._requests("Base", text, each, more)

    agenerate_custom_voice = asynchronous(generate_custom_voice)
    agenerate_voice_design = asynchronous(generate_voice_design)
    agenerate_voice_clone = asynchronous(generate_voice_clone)

    def create_voice(
        self, ref_audio: Recording, ref_text: str | None = None, name: str = "voice"
    ) -> PreparedVoice:
        """Prepare a voice from a recording once, for many requests; the voice can be saved.

        Args:
            ref_audio: recording: a path, a file's content, or (samples, rate in Hz).
            ref_text: transcript of the recording. Without it, the voice imitates only the speaker's
                timbre.

        Raises:
            InvalidRequestError: the recording is unusable, or the model does not clone voices.
        """
        return self.prepare_voice(self.read_recording(ref_audio), ref_text, name)

    async def acreate_voice(
        self, ref_audio: Recording, ref_text: str | None = None, name: str = "voice"
    ) -> PreparedVoice:
        """Run `create_voice` in a thread."""
        return await asyncio.to_thread(self.create_voice, ref_audio, ref_text, name)

    def _requests(
        self, task: str, text: str | list[str], each: Mapping[str, Any], more: Mapping[str, Any]
    ) -> list[SpeechRequest]:
        """Return one request per text; a family without task types uses built-in voices."""
        named = {} if task == "CustomVoice" and not self.has_task_types else {"task_type": task}
        return requests_of(text, each, {**named, **more})


def _each(function: Callable[[Any], Any], value: Any) -> Any:
    """Apply a function to a value, or to the entries of a list; ``None`` stays."""
    if isinstance(value, list):
        return [function(each) for each in value]
    return None if value is None else function(value)


_REQUEST_FIELDS = ("voice", "language", "instructions", "seed", "speed", "sample_rate_hz")
_SAMPLING_FIELDS = ("do_sample", "ignore_eos", *names_of(Sampling))


def requests_of(
    text: str | list[str], each: Mapping[str, Any], more: Mapping[str, Any]
) -> list[SpeechRequest]:
    """Return one request per text; raises InvalidRequestError.

    Args:
        each: fields and options by name; a list has one entry per text. ``None`` is left out.
        more: fields shared by all texts, except ``seed`` and ``language``, which may be lists.
    """
    texts = text if isinstance(text, list) else [text]
    each = {"language": more.get("language"), "seed": more.get("seed"), **each}
    for name, value in each.items():
        if not isinstance(value, list):
            continue
        if not isinstance(text, list) or len(value) != len(texts):
            num_texts = len(texts) if isinstance(text, list) else "one"
            raise invalid(name, f"a list of {len(value)} for {num_texts} text(s)")
    return [
        _request(one, {**more, **{name: _at(value, n) for name, value in each.items()}})
        for n, one in enumerate(texts)
    ]


def _at(value: Any, index: int) -> Any:
    return value[index] if isinstance(value, list) else value


def _request(text: str, values: Mapping[str, Any]) -> SpeechRequest:
    """Sort values into the parts of a request; unknown names are options."""
    given = {name: value for name, value in values.items() if value is not None}
    fields = {name: given.pop(name) for name in _REQUEST_FIELDS if name in given}
    sampling = {name: given.pop(name) for name in _SAMPLING_FIELDS if name in given}
    max_new_tokens = given.pop("max_new_tokens", None)
    if max_new_tokens is not None:
        NEW_TOKENS.check("max_new_tokens", max_new_tokens)
    sampling["max_frames"] = max_frames_of(max_new_tokens)
    sampling["min_frames"] = given.pop("min_tokens", None)
    return SpeechRequest(text, sampling=Sampling(**sampling), options=given, **fields)
