"""Voices of reference audio: input of the voice encoder, and a cache of its features."""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from antiphon.concurrency import SingleFlightLRU
from antiphon.contracts.family import SpeechCapabilities
from antiphon.contracts.prepared_voice import PreparedVoice
from antiphon.contracts.prompt import Encode
from antiphon.contracts.types import Samples
from antiphon.errors import invalid


def _recording(value: Any) -> NDArray[np.float32]:
    is_recording = isinstance(value, np.ndarray) and value.dtype == np.float32 and value.ndim == 1
    if not is_recording or not len(value) or not math.isfinite(np.abs(value).max()):
        raise PydanticCustomError(
            "recording", "it must be finite samples: float32, mono, not empty"
        )
    recording: NDArray[np.float32] = value
    return recording


def _reference(value: Any) -> NDArray[np.float32] | PreparedVoice:
    if isinstance(value, PreparedVoice):
        return value
    try:
        return _recording(value)
    except PydanticCustomError as error:
        raise PydanticCustomError(
            "recording", "it must be a prepared voice, or finite samples: float32, mono, not empty"
        ) from error


# On the wire, the option is an address: requests bring no samples.
_ADDRESS = WithJsonSchema({"type": "string", "minLength": 1})
Reference = Annotated[NDArray[np.float32] | PreparedVoice, PlainValidator(_reference), _ADDRESS]
"""Samples of a recording, ``[num_samples]`` at the model's rate; or a voice prepared from one."""
ContinuedRecording = Annotated[NDArray[np.float32], PlainValidator(_recording), _ADDRESS]
"""Samples of a recording that the speech continues, at the model's rate; never a prepared voice."""
SPEAKER, CODES, FEATURES = "speaker_embedding", "ref_codes", "ref_features"
"""Parts of a `PreparedVoice`; most encoders name their outputs so."""


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """Reference audio for the voice encoder.

    Attributes:
        samples: mono at the model's rate, float32 ``[num_samples]``.
        wanted: names of the encoder's outputs.
        param: request field that brought the recording.
    """

    samples: Samples
    wanted: tuple[str, ...]
    param: str = "ref_audio"


@dataclass(frozen=True, slots=True)
class RecordingLimits:
    """Durations of reference audio that a voice encoder accepts.

    Attributes:
        min_s: shortest duration; a recording without samples is never accepted.
    """

    rate_hz: int
    max_s: float
    min_s: float = 0.0

    def check(self, recording: Recording) -> None:
        """Refuse a recording that is too short or too long; raises InvalidRequestError."""
        duration_s = len(recording.samples) / self.rate_hz
        if duration_s and self.min_s <= duration_s <= self.max_s:
            return
        least = f"{self.min_s:.3g} to" if self.min_s >= 0.001 else "more than 0 and at most"
        allowed = f"Must be {least} {self.max_s:.4g} seconds"
        raise invalid(recording.param, f"{duration_s:.6g} seconds of audio. {allowed}")


def warm_up_samples(rate_hz: int) -> Samples:
    """Return a second of noise for warming encoders, the same every time."""
    return np.random.default_rng(0).normal(0, 0.1, rate_hz).astype(np.float32)


def known_text(text: str | None) -> str | None:
    """Return the transcript of a recording, ``None`` if it is blank."""
    return text if text and text.strip() else None


class CloningPrompter:
    """Base of prompters that prepare voices of reference audio through an encoder stage.

    A recording that comes with every request is encoded once. Thread-safe.
    """

    def __init__(
        self,
        capabilities: SpeechCapabilities,
        family: str,
        parts: Sequence[str] = (CODES,),
        max_cached: int = 64,
    ) -> None:
        """Start with an empty cache of ``max_cached`` outputs; the pipeline sets the encoder."""
        self.capabilities = capabilities
        self._family, self._parts = family, tuple(parts)
        self._encoder: Encode | None = None
        self._cached: SingleFlightLRU[tuple[bytes, str], Any] = SingleFlightLRU(max_cached)

    def use_encoder(self, encode: Encode) -> None:
        """Prepare voices by the encoder stage, which takes a `Recording`."""
        self._encoder = encode

    def warm_encoder(self) -> None:
        """Encode a second of noise, which is not cached; blocks."""
        self._encoded(Recording(warm_up_samples(self.capabilities.sample_rate_hz), self._parts))

    def features(
        self, samples: Samples, wanted: Sequence[str], param: str = "ref_audio"
    ) -> dict[str, NDArray[Any]]:
        """Return outputs of the encoder by name; blocks, so call it in a worker thread.

        Args:
            samples: mono at the model's rate, float32 ``[num_samples]``.

        Raises:
            InvalidRequestError: the recording is too short or too long.
            OverloadedError: too many recordings wait to be encoded.
            EngineError: the encoder failed.
        """
        digest = hashlib.sha256(np.ascontiguousarray(samples).data).digest()

        def encode(part: str) -> Any:
            # Recordings are larger than their features, so all missing ones are requested at once.
            parts = tuple(
                name for name in wanted if name == part or (digest, name) not in self._cached
            )
            made = self._encoded(Recording(samples, parts, param))
            for name in parts:
                if name != part:
                    self._cached.get((digest, name), partial(made.__getitem__, name))
            return made[part]

        return {part: self._cached.get((digest, part), partial(encode, part)) for part in wanted}

    def prepare_voice(
        self, samples: Samples, *, name: str, ref_text: str | None = None
    ) -> PreparedVoice:
        """Prepare a voice from a recording, for use as ``ref_audio``; see `prepare_parts`."""
        return self.prepare_parts(samples, self._parts, name=name, ref_text=ref_text)

    def prepare_parts(
        self, samples: Samples, wanted: Sequence[str], *, name: str, ref_text: str | None
    ) -> PreparedVoice:
        """Prepare a voice whose parts are outputs of the encoder; see `features`."""
        features = self.features(samples, wanted)
        return PreparedVoice(
            name=name, family=self._family, ref_text=known_text(ref_text), **features
        )

    def _encoded(self, recording: Recording) -> Any:
        assert self._encoder is not None, "the pipeline calls use_encoder first"
        return self._encoder(recording)
