"""The vocabulary that every layer shares: requests, voices, chunks and how a stream ends.

All of it is frozen and free of torch, so that it crosses threads, processes and hosts unchanged.
"""

import os
import random
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:  # so that importing the vocabulary stays quick
    import numpy as np
    from numpy.typing import NDArray

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


MIN_NEW_TOKENS = 2
"""The least ``max_new_tokens`` that leaves room for a frame; see `max_frames_of`."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How an autoregressive stage draws codes. ``None`` means the family's default."""

    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    repetition_penalty: float | None = None
    max_frames: int | None = None

    def with_defaults(self, defaults: "Sampling") -> "Sampling":
        """Return these parameters, and ``defaults`` where they are ``None``."""
        given = {name: value for name, value in asdict(self).items() if value is not None}
        return replace(defaults, **given)


def max_frames_of(max_new_tokens: int | None) -> int | None:
    """Return how many frames a limit of tokens leaves room for.

    As elsewhere, the token that ends speech is one of them, and a frame is never made of the last.
    """
    return None if max_new_tokens is None else max_new_tokens - 1


@dataclass(frozen=True, slots=True)
class SpeechRequest:
    """One thing to be spoken.

    Attributes:
        input: the text; any length, long text is split by the pipeline.
        voice: a voice id; ``None`` or ``"default"`` is the model's first voice.
        model: a served model's name; ``None`` is the default model.
        language: a language the model declares; ``None`` lets the model decide.
        instructions: how to speak, for models that take instructions.
        speed: 0.25 to 4.0; pitch is kept.
        sample_rate_hz: of the result; ``None`` is the model's own.
        seed: makes the audio repeatable; ``None`` draws one.
        sampling: overrides of the family's sampling defaults.
        options: family-only fields, validated by the family's options model.
        is_live: whether a listener plays it while it is made; otherwise its priority is offline.
        pronunciations: what is read instead of a word, beside those of the server.
        normalize: whether numbers, units and the like are written out, in English.
        word_timestamps: whether chunks carry the times of words.
        volume: factor of all samples.
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
    sampling: Sampling = Sampling()
    options: Mapping[str, Any] = field(default_factory=dict)
    is_live: bool = True
    pronunciations: Mapping[str, str] = field(default_factory=dict)
    normalize: bool = False
    word_timestamps: bool = False
    volume: float = 1.0
    id: str = field(default_factory=new_request_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Voice:
    """A voice that a model can speak with."""

    id: str
    name: str
    language: str | None = None
    gender: str | None = None
    description: str | None = None
    kind: Literal["builtin", "uploaded"] = "builtin"


@dataclass(frozen=True, slots=True)
class FrameReady:
    """One frame on its way from an autoregressive stage to a decoder, which alone looks inside."""

    frame: Any


@dataclass(frozen=True, slots=True)
class WordTime:
    """When a word is spoken, from the beginning of its stream."""

    word: str
    start_s: float
    end_s: float

    def later(self, by_s: float) -> "WordTime":
        """Return the same word, as it is spoken where something comes before it."""
        return WordTime(self.word, self.start_s + by_s, self.end_s + by_s)


@dataclass(frozen=True, slots=True)
class AudioChunk:
    """A piece of audio, in order.

    Attributes:
        samples: PCM in [-1, 1], shape ``[num_samples]`` (mono) or ``[num_samples, channels]``.
        sample_rate_hz: of ``samples``.
        num_frames: model frames that this chunk completes, for usage and metrics.
        words: those that have become known with this chunk, in order; what a request that asked
            for none gets is empty.
        unspoken: what the voice leaves out of the text; in a stream's first chunk, for all of it.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffusionParameters:
    """How a denoising stage works on a request. ``None`` means the family's default.

    Attributes:
        num_inference_steps: of denoising.
        guidance_scale: how closely it follows the prompt; of a distilled model, one of its inputs.
        true_cfg_scale: of classifier-free guidance, where ``guidance_scale`` is such an input.
        guidance_scale_2: of the second expert, for low noise.
        boundary_ratio: where the second expert takes over, as a share of the schedule.
        flow_shift: of the flow-matching schedule.
    """

    num_inference_steps: int | None = None
    guidance_scale: float | None = None
    true_cfg_scale: float | None = None
    guidance_scale_2: float | None = None
    boundary_ratio: float | None = None
    flow_shift: float | None = None

    def with_defaults(self, defaults: "DiffusionParameters") -> "DiffusionParameters":
        """Return these parameters, and ``defaults`` where they are ``None``."""
        given = {name: value for name, value in asdict(self).items() if value is not None}
        return replace(defaults, **given)


@dataclass(frozen=True, slots=True)
class ImageRequest:
    """One image to be drawn.

    Attributes:
        prompt: what it shows.
        seed: makes the image repeatable; ``None`` draws one.
        negative_prompt: what it shall not show.
        model: a served model's name; ``None`` is the default model.
        width: in pixels; ``None`` is the model's default.
        height: likewise.
        images: to be edited, each ``[height, width, 3 or 4]`` of uint8; empty: it is made anew.
        mask: ``[height, width]`` of the first image, 255 where it may change; ``None``: anywhere.
        num_previews: images to be shown while it forms, evenly over the steps.
        parameters: of denoising.
        options: family-only fields, validated by the family's options model.
        is_live: whether somebody waits for it; otherwise its priority is offline.
        id: names the request in logs, metrics and the engine.
    """

    prompt: str
    seed: int | None = None
    negative_prompt: str | None = None
    model: str | None = None
    width: int | None = None
    height: int | None = None
    images: "tuple[NDArray[np.uint8], ...]" = ()
    mask: "NDArray[np.uint8] | None" = None
    num_previews: int = 0
    parameters: DiffusionParameters = DiffusionParameters()
    options: Mapping[str, Any] = field(default_factory=dict)
    is_live: bool = True
    id: str = field(default_factory=new_request_id)


@dataclass(frozen=True, slots=True)
class VideoRequest:
    """One video to be made.

    Attributes:
        prompt: what it shows.
        seed: makes the video repeatable; ``None`` draws one.
        negative_prompt: what it shall not show.
        model: a served model's name; ``None`` is the default model.
        width: in pixels; ``None`` is the model's default.
        height: likewise.
        num_frames: ``None`` is the model's default.
        fps: frames a second at which it is played.
        image: the first frame, ``[height, width, 3]`` of uint8; ``None``: from the prompt alone.
        parameters: of denoising.
        options: family-only fields, validated by the family's options model.
        is_live: whether somebody waits for it; otherwise its priority is offline.
        id: names the request in logs, metrics and the engine.
    """

    prompt: str
    seed: int | None = None
    negative_prompt: str | None = None
    model: str | None = None
    width: int | None = None
    height: int | None = None
    num_frames: int | None = None
    fps: int = 24
    image: "NDArray[np.uint8] | None" = None
    parameters: DiffusionParameters = DiffusionParameters()
    options: Mapping[str, Any] = field(default_factory=dict)
    is_live: bool = True
    id: str = field(default_factory=new_request_id)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a stage is with a request.

    Attributes:
        step: steps that are done, 1 to ``num_steps``; it grows, and a slow reader may miss some.
        num_steps: of this request.
    """

    step: int
    num_steps: int


@dataclass(frozen=True, slots=True)
class Image:
    """A whole image.

    Attributes:
        pixels: shape ``[height, width, channels]``; of 1, 3 or 4 channels.
        preview_index: of the image as it forms, from 0; ``None``: it is the final one.
    """

    pixels: "NDArray[np.uint8]"
    preview_index: int | None = None


@dataclass(frozen=True, slots=True)
class Video:
    """A whole video.

    Attributes:
        frames: shape ``[num_frames, height, width, 3]``.
        fps: frames a second.
    """

    frames: "NDArray[np.uint8]"
    fps: int


@dataclass(frozen=True, slots=True)
class Latents:
    """What an encoder has made, or a stage hands to the next.

    Attributes:
        data: an array, or arrays by name, that the family reads; or `PositionStates`.
        preview_index: of an estimate of the final ones, from 0; ``None``: they are final.
    """

    data: Any
    preview_index: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class PositionStates:
    """States that a model has computed at positions of a request, for the model after it.

    Attributes:
        start: number of the first position.
        states: f32, ``[num_positions, width]``.
    """

    start: int
    states: "NDArray[np.float32]"


@dataclass(frozen=True, slots=True)
class Usage:
    """What a request cost: text units read by the model and frames it made."""

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
        reason: why it ended.
        usage: what it cost.
        unspoken: what the voice has left out of the text, in order, each once; the first of it if
            it is much.
    """

    reason: FinishReason
    usage: Usage = Usage()
    unspoken: tuple[str, ...] = ()


SpeechEvent: TypeAlias = AudioChunk | Ended
SpeechStream: TypeAlias = AsyncGenerator[SpeechEvent, None]
"""Audio, then one `Ended`; the caller that opened it closes it."""
