"""Protocols that a family implements: a prompter always, a generator if it owns its loop.

The other kinds of stage are protocols owned by their users: `antiphon.engine.runner.Runner`,
`antiphon.codec.protocol.StreamingDecoder` and `antiphon.diffusion.protocol.Denoiser`.
"""

from collections.abc import Callable, Collection, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

from numpy.typing import NDArray

from antiphon.contracts.family import SpeechCapabilities
from antiphon.contracts.picture_types import Image, ImageRequest, Progress, Video, VideoRequest
from antiphon.contracts.prepared_voice import PreparedVoice
from antiphon.contracts.types import AudioChunk, Latents, Samples, Sampling, SpeechRequest, Voice


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What a model reads for one segment of text.

    Attributes:
        data: the family's own form of it, opaque to all else.
        num_tokens: text units that the model reads, for usage.
        seed: Seed of all random numbers of this segment.
        sampling: complete, defaults filled in.
        num_frames_allowed: frames that may be made before more text must arrive (see `Piece`);
            ``None`` if the text is complete.
        context_frames: frames that the decoder is primed with before the first new one, whose
            audio is dropped, shape ``[num_frames, ...]``; ``None`` for none.
        conditioning: Conditioning of the decoder in this request, such as an array or a
            mapping of arrays, in a form that the decoder and its family agree on.
        first_chunk_frames: frames in the first chunk of audio; ``None`` leaves it to the decoder.
        num_positions: Positions read before the first frame, if keys and values are paged.
        is_decoded: whether a codec that shares the model's engine decodes the frames; if not, they
            are handed over as they are, as text is.
        position_keys: 64-bit key of each of these positions that identifies all that the model
            reads there, so that equal keys from position 0 on mean equal keys and values; they may
            cover the first positions only. Empty: never shared.
        num_common_positions: Keyed positions at the beginning that other prompts are likely to
            begin with too, such as a voice's. What begins with a whole block is shared in any case;
            these are also found if they end within one.
    """

    data: Any
    num_tokens: int
    seed: int
    sampling: Sampling = Sampling()
    num_frames_allowed: int | None = None
    context_frames: NDArray[Any] | None = None
    conditioning: Any = None
    first_chunk_frames: int | None = None
    num_positions: int = 0
    position_keys: Sequence[int] = ()
    num_common_positions: int = 0
    is_decoded: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Text that arrives after its request has begun.

    Attributes:
        data: the family's own form of it.
        num_frames_allowed: frames that may be made, as in `Prompt`, counted from the request's
            first.
        num_tokens: text units that it adds, for usage.
    """

    data: Any
    num_frames_allowed: int | None
    num_tokens: int = 0


class Prompter(Protocol):
    """Turns requests for speech into prompts.

    Pure: the same request and voice give the same prompt. A prompter of another task has the
    capabilities of its task, and builds prompts of its task's requests by ``build(request, seed)``.
    """

    @property
    def capabilities(self) -> SpeechCapabilities:
        """What the loaded checkpoint can do."""

    def build(self, request: SpeechRequest, voice: Voice, seed: int) -> Prompt:
        """Build the prompt of one segment; called in a worker thread; raises InvalidRequestError.

        ``request.input`` is the segment's text, never blank, and ``request.sampling`` is complete.
        A text that is one segment comes as its request has it, with the spaces around it.
        """


class Feed(Protocol):
    """Makes the pieces of one request whose text is still arriving; called in worker threads."""

    def push(self, text: str) -> Piece | None:
        """Take in more text; return what it adds, if anything is certain yet."""

    def close(self) -> Piece:
        """Return the last piece; raises InvalidRequestError if the whole text was empty."""


@runtime_checkable
class SupportsRequestChecks(Protocol):
    """Optional: a prompter whose model restricts requests beyond its capabilities."""

    def check(self, request: SpeechRequest, recordings: Collection[str] = ()) -> None:
        """Refuse a request that no text and no voice could make valid; does no work.

        Args:
            request: Request, still without its recordings.
            recordings: names of the options that will be recordings.

        Raises:
            InvalidRequestError: the request is outside what the checkpoint can do.
        """


@runtime_checkable
class LateText(Protocol):
    """Optional: a prompter whose `SpeechCapabilities.late_text` is set."""

    def open(self, request: SpeechRequest, voice: Voice, seed: int) -> tuple[Prompt, Feed]:
        """Build the prompt of a text that is still arriving, and what makes pieces of the rest.

        ``request.input`` is the text so far, never blank. In whatever pieces it arrives, the frames
        are the same.

        Raises:
            InvalidRequestError: the request is outside what the checkpoint can do.
        """


@dataclass(frozen=True, slots=True)
class TextCheck:
    """What a voice makes of a text.

    Attributes:
        unspoken: Text that it leaves out, in order: words, signs, emoji. Not punctuation.
    """

    unspoken: tuple[str, ...]
    is_spoken: bool


@runtime_checkable
class SupportsTextChecks(Protocol):
    """Optional: a prompter whose voices leave out what they cannot speak, instead of trying."""

    def check_text(self, text: str, voice: Voice, language: str | None = None) -> TextCheck:
        """Look at a segment; called in a worker thread for all of a text before it is spoken.

        It should cost little beside `Prompter.build`, and raises nothing: that refuses a
        ``language`` of the request that cannot be spoken.
        """


@runtime_checkable
class SupportsVoiceNames(Protocol):
    """Optional: a prompter that accepts more voice names than its capabilities list."""

    def named_voice(self, name: str) -> Voice | None:
        """Return the voice of a name, such as a mix of others; ``None`` if the name is unknown.

        Does no work. `Prompter.build` may still refuse the voice.
        """


@runtime_checkable
class VoicePreparing(Protocol):
    """Optional: a prompter whose model can clone voices."""

    def prepare_voice(
        self, samples: Samples, *, name: str, ref_text: str | None = None
    ) -> PreparedVoice:
        """Prepare a voice from a recording; called in a worker thread; raises InvalidRequestError.

        Args:
            samples: mono, at the model's rate.
        """


Encode: TypeAlias = Callable[[Any], Any]
"""Encodes data in the task's encoder stage; blocks, so it is called in worker threads.

Returns the data of the stage's `Latents`: an array, or arrays by name.

Raises `InvalidRequestError` for data that will not do, and `OverloadedError` if too much waits.
"""


@runtime_checkable
class SupportsEncoderWarmUp(Protocol):
    """Optional: a prompter that can warm its encoder."""

    def warm_encoder(self) -> None:
        """Encode something, so that the first user does not wait for caches; blocks."""


@runtime_checkable
class SupportsDefaultSizes(Protocol):
    """Optional: a prompter of images or videos whose best size depends on the request."""

    def choose_size(self, request: ImageRequest | VideoRequest) -> tuple[int, int]:
        """Return width and height for a request without a size, such as its image's shape."""


@dataclass(frozen=True, slots=True)
class Admitted:
    """There is room for a request, or for a stream whose requests come later."""


GeneratorItem: TypeAlias = AudioChunk | Image | Video | Latents | Progress
"""What a `StageGenerator` may yield."""


class StageGenerator(Protocol):
    """A model that owns its loop and yields items; called in worker threads, one per request.

    Implementations hold no state per request outside the generator that they return, so that
    closing it frees everything.
    """

    def generate(self, prompt: Prompt) -> Generator[GeneratorItem, None, None]:
        """Yield the items of one prompt, each as soon as it is ready.

        Behind another stage it is called once for each `Latents` of that, the last of them final,
        as the prompt's ``conditioning``.
        """

    def close(self) -> None:
        """Free what loading took."""


@dataclass(frozen=True, slots=True)
class EncodingBatch:
    """What data can be encoded together with.

    Attributes:
        key: data of equal keys may be of one batch.
        max_size: Largest such batch, at least 1.
    """

    key: Any
    max_size: int = 1


@runtime_checkable
class BatchEncoder(Protocol):
    """A model that encodes what requests bring, several at a time; for stages of kind encoder."""

    def batch_of(self, data: Any) -> EncodingBatch:
        """Return the batches that data may join; called in the event loop, so it must be cheap.

        Raises:
            InvalidRequestError: the data will not do.
        """

    def encode_batch(self, batch: Sequence[Any]) -> Sequence[Latents]:
        """Encode data of equal keys, as many as may be of a batch; called in one thread.

        What is made of data does not depend on the others. If it raises, all of them are encoded
        again, each alone.
        """

    def close(self) -> None:
        """Free what loading took."""
