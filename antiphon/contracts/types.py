"""The vocabulary that every layer shares: requests, voices, chunks and how a stream ends.

All of it is frozen and free of torch, so that it crosses threads, processes and hosts unchanged.
"""

import os
import random
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from antiphon.contracts.sampling import Sampling as Sampling

if TYPE_CHECKING:  # so that importing the vocabulary stays quick
    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T")

Samples: TypeAlias = "NDArray[np.float32]"
"""Mono PCM in [-1, 1], shape ``[num_samples]``."""

FinishReason: TypeAlias = Literal["stop", "length", "abort", "error"]
"""Why a stream ended: the model stopped, a limit was met, the listener left, or a fault."""

LoadProgress: TypeAlias = Callable[[str, int, int], None]
"""Called, in any thread, with what is being read or prepared, how much of it is done, and how much
there is: bytes, or steps."""


_random = random.Random()  # seeded by the system, which every id would otherwise have to ask
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_random.seed)


def random_hex(num_digits: int) -> str:
    """Return random hexadecimal digits, for ids; what must not be guessed needs `secrets`.

    No system call, for which a thread gives the interpreter's lock away, and waits to get it back.
    """
    return f"{_random.getrandbits(4 * num_digits):0{num_digits}x}"


def new_request_id() -> str:
    """Return a fresh id, unique across hosts."""
    return f"req_{random_hex(32)}"


def new_seed() -> int:
    """Return a random seed that a JSON number carries without loss (below 2**53)."""
    return _random.getrandbits(53)


@dataclass(frozen=True, slots=True)
class Caller:
    """On whose behalf something is done: what is kept belongs to its owner.

    Attributes:
        owner: the owner's name; ``None`` where keys have no owners.
        is_admin: whether what belongs to others may be seen and deleted too.
    """

    owner: str | None = None
    is_admin: bool = False

    def may_use(self, owner: str | None) -> bool:
        """Whether something of this owner's may be seen, changed and deleted."""
        return self.is_admin or owner == self.owner


OPERATOR = Caller(is_admin=True)
"""The operator on the server's machine; also every caller, where no key is required."""


@dataclass(frozen=True, slots=True)
class SpeechRequest:
    """One thing to be spoken.

    Attributes:
        input: the text; any length, long text is split by the pipeline.
        voice: a voice id; ``None`` or ``"default"`` is the model's first voice.
        model: a served model's name; ``None`` is the default model.
        language: a language the model declares; ``None`` lets the model decide.
        instructions: Instructions on how to speak, for models that take them.
        speed: 0.25 to 4.0; pitch is kept.
        sample_rate_hz: Sample rate of the result; ``None`` is the model's own.
        seed: makes the audio repeatable; ``None`` draws one.
        sampling: overrides of the family's sampling defaults.
        options: family-only fields, validated by the family's options model.
        is_live: whether a listener plays it while it is made; otherwise its priority is offline.
        may_wait: whether its priority may be offline where there is no room for another listener.
        pronunciations: Replacements of words, beside those of the server.
        normalize: whether numbers, units and the like are written out, in English.
        word_timestamps: whether chunks carry the times of words.
        volume: factor of all samples.
        loudness_lufs: integrated loudness that voices of known loudness are brought to; ``"off"``
            leaves the model's output as it is, ``None`` is the server's setting.
        sentence_pause_ms: silence between sentences; ``None`` is the server's setting.
        id: names the request in logs, metrics and the engine.
    """

    input: str
    voice: str | None = None
    model: str | None = None
    language: str | None = None
    instructions: str | None = None
    speed: float = 1.0
    sample_rate_hz: int | None = None
    seed: int | None = None
    sampling: Sampling = field(default_factory=Sampling)
    options: Mapping[str, Any] = field(default_factory=dict)
    is_live: bool = True
    may_wait: bool = False
    pronunciations: Mapping[str, str] = field(default_factory=dict)
    normalize: bool = False
    word_timestamps: bool = False
    volume: float = 1.0
    loudness_lufs: float | Literal["off"] | None = None
    sentence_pause_ms: int | None = None
    id: str = field(default_factory=new_request_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Voice:
    """A voice that a model can speak with.

    Attributes:
        loudness_lufs: measured integrated loudness of the model's output; ``None`` if unknown.
    """

    id: str
    name: str
    language: str | None = None
    gender: str | None = None
    description: str | None = None
    kind: Literal["builtin", "uploaded"] = "builtin"
    loudness_lufs: float | None = None


@dataclass(frozen=True, slots=True)
class FrameReady:
    """One frame on its way from an autoregressive stage to a decoder, which alone looks inside."""

    frame: Any


@dataclass(frozen=True, slots=True)
class WordTime:
    """Time of a word, from the beginning of its stream.

    Attributes:
        word: characters of the text.
        offset: offset of its first character in the text, in code points.
        read: words that are spoken for it; empty if they are ``word``.
    """

    word: str
    start_s: float
    end_s: float
    offset: int
    read: str = ""

    @property
    def stop(self) -> int:
        """Offset after its last character."""
        return self.offset + len(self.word)

    def later(self, by_s: float) -> "WordTime":
        """Return the same word, as it is spoken where something comes before it."""
        return replace(self, start_s=self.start_s + by_s, end_s=self.end_s + by_s)


@dataclass(frozen=True, slots=True)
class AudioChunk:
    """A piece of audio, in order.

    Attributes:
        samples: PCM in [-1, 1], shape ``[num_samples]`` (mono) or ``[num_samples, channels]``.
        num_frames: model frames that this chunk completes, for usage and metrics.
        words: those that have become known with this chunk, in order; what a request that asked
            for none gets is empty.
        unspoken: Text that the voice leaves out; in a stream's first chunk, for all of it.
        frames: those that this chunk completes, as they were made, for a request that asked for
            them; empty otherwise.
    """

    samples: Samples
    sample_rate_hz: int
    num_frames: int = 0
    words: tuple[WordTime, ...] = ()
    unspoken: tuple[str, ...] = ()
    frames: tuple[Any, ...] = ()

    @property
    def duration_s(self) -> float:
        return len(self.samples) / self.sample_rate_hz


@dataclass(frozen=True, slots=True)
class Latents:
    """Output of an encoder, or of a stage for the next one.

    Attributes:
        data: an array, or arrays by name, that the family reads; or `PositionStates`.
        preview_index: Index of an estimate of the final ones, from 0; ``None``: they are final.
    """

    data: Any
    preview_index: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class PositionStates:
    """States that a model has computed at positions of a request, for the model after it.

    Attributes:
        states: f32, ``[num_positions, width]``.
    """

    start: int
    states: "NDArray[np.float32]"


@dataclass(frozen=True, slots=True)
class Usage:
    """Cost of a request: text units read by the model and frames it made."""

    input_tokens: int = 0
    output_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input_tokens + other.input_tokens, self.output_tokens + other.output_tokens
        )


@dataclass(frozen=True, slots=True)
class Ended:
    """The last item of every stream, exactly once.

    Attributes:
        unspoken: Text that the voice has left out, in order, each once; the first of it if
            it is much.
    """

    reason: FinishReason
    usage: Usage = Usage()
    unspoken: tuple[str, ...] = ()


SpeechEvent: TypeAlias = AudioChunk | Ended
SpeechStream: TypeAlias = AsyncGenerator[SpeechEvent, None]
"""Audio, then one `Ended`; the caller that opened it closes it."""
