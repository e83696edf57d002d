"""The Python face: load a model, get speech, in one process, sync or async."""

import functools
from collections.abc import AsyncGenerator, Generator
from contextlib import ExitStack, aclosing
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from anyio.from_thread import start_blocking_portal

from antiphon.audio.encode import AudioFormat, open_encoder
from antiphon.config import load_settings
from antiphon.errors import InvalidRequestError
from antiphon.pipeline.runtime import LoadedModel
from antiphon.pipeline.speech import Speech
from antiphon.types import (
    AudioChunk,
    Ended,
    FinishReason,
    LoadProgress,
    Samples,
    SpeechRequest,
    SpeechStream,
    Usage,
    Voice,
)


@dataclass(frozen=True, slots=True)
class Audio:
    """A whole utterance: the stream, collected.

    Attributes:
        samples: mono PCM in [-1, 1], shape ``[num_samples]``.
        sample_rate_hz: of ``samples``.
        finish_reason: ``"stop"``, or ``"length"`` if a limit cut it.
        usage: text units read, frames made.
    """

    samples: Samples
    sample_rate_hz: int
    finish_reason: FinishReason
    usage: Usage

    @property
    def duration_s(self) -> float:
        return len(self.samples) / self.sample_rate_hz

    def save(self, path: str | PathLike[str]) -> None:
        """Write a file; its suffix (.wav, .mp3, .opus, .aac, .flac, .pcm) names the format.

        Raises:
            InvalidRequestError: the suffix is none of these.
        """
        path = Path(path)
        suffix = path.suffix.removeprefix(".").lower()
        if suffix not in list(AudioFormat):
            raise InvalidRequestError(
                f"Unknown audio format '{suffix}'. Available: {', '.join(AudioFormat)}.",
                param="response_format",
            )
        encoder = open_encoder(
            AudioFormat(suffix), self.sample_rate_hz, num_samples=len(self.samples)
        )
        path.write_bytes(encoder.encode(self.samples) + encoder.finish())


class Antiphon:
    """A loaded model.

    Example:
        >>> from antiphon import Antiphon, SpeechRequest
        >>> with Antiphon.load("hibari") as antiphon:
        ...     antiphon.speech(SpeechRequest("Hello there.")).save("hello.wav")
    """

    def __init__(
        self, model: str | None = None, *, progress: LoadProgress | None = None, **settings: Any
    ) -> None:
        """Load a model.

        Args:
            model: a built-in model, a checkpoint's directory, or its ``ORG/NAME`` on the hub.
            progress: told, in other threads, how far loading is.
            settings: those of the ``[model]`` section (device, dtype ...).
        """
        flags = {f"model.{name}": value for name, value in settings.items()}
        loaded_settings = load_settings({**flags, "model.source": model})
        self._exit = ExitStack()
        self._portal = self._exit.enter_context(start_blocking_portal())
        try:
            load = functools.partial(LoadedModel.load, loaded_settings.model, progress=progress)
            self._model = self._portal.call(load)
        except BaseException:
            self._exit.close()
            raise
        self._exit.callback(self._portal.call, self._model.close)
        self._speech = Speech({self._model.name: self._model}, loaded_settings.speech)
        self._exit.callback(self._speech.close)

    @classmethod
    def load(
        cls, model: str | None = None, *, progress: LoadProgress | None = None, **settings: Any
    ) -> Self:
        """Load a built-in model or a checkpoint; arguments as of `Antiphon`.

        Raises:
            ModelLoadError: it cannot be served.
            SettingsError: a setting is unknown or wrong.
        """
        return cls(model, progress=progress, **settings)

    @property
    def voices(self) -> tuple[Voice, ...]:
        """The voices that this model can speak with; the first is the default."""
        return self._model.capabilities.voices

    def stream(self, request: SpeechRequest | str) -> Generator[AudioChunk, None, None]:
        """Yield audio as soon as it is made. Closing the generator stops the work."""
        events = self._speech.stream(_as_request(request))
        next_event = functools.partial(anext, events, None)
        try:
            while (event := self._portal.call(_awaited, next_event)) is not None:
                if isinstance(event, AudioChunk):
                    yield event
        finally:
            self._portal.call(events.aclose)

    def speech(self, request: SpeechRequest | str) -> Audio:
        """Return the whole utterance."""
        return self._portal.call(self.aspeech, request)

    async def astream(self, request: SpeechRequest | str) -> AsyncGenerator[AudioChunk, None]:
        """Yield audio as soon as it is made, on the caller's event loop."""
        async with aclosing(self._speech.stream(_as_request(request))) as events:
            async for event in events:
                if isinstance(event, AudioChunk):
                    yield event

    async def aspeech(self, request: SpeechRequest | str) -> Audio:
        """Return the whole utterance, on the caller's event loop."""
        return await collect(self._speech.stream(_as_request(request)))

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


async def collect(events: SpeechStream) -> Audio:
    """Collect a stream into one utterance."""
    chunks: list[AudioChunk] = []
    ended: Ended | None = None
    async with aclosing(events):
        async for event in events:
            if isinstance(event, AudioChunk):
                chunks.append(event)
            else:
                ended = event
    assert ended is not None, "a stream ends with one Ended"
    assert chunks, "a stream has at least one chunk"
    samples = np.concatenate([chunk.samples for chunk in chunks])
    return Audio(samples, chunks[0].sample_rate_hz, ended.reason, ended.usage)


async def _awaited(awaitable: Any) -> Any:
    return await awaitable()


def _as_request(request: SpeechRequest | str) -> SpeechRequest:
    return SpeechRequest(request) if isinstance(request, str) else request
