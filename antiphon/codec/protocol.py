"""Codec contract: each frame is decoded once, state is carried, samples are exact."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeAlias, runtime_checkable

from numpy.typing import NDArray

from antiphon.contracts.types import Samples
from antiphon.engine.plan import CodecChunk
from antiphon.engine.runner import Pending

PendingAudio: TypeAlias = Pending[Mapping[int, Samples]]
"""Chunks that are being decoded: of each slot ``[num_frames * samples_per_frame]``, or with
``[..., channels]``; see `StepOutput.chunks`."""


class StreamingDecoder(Protocol):
    """Decodes streams side by side, each in a row of a state; called from one thread at a time.

    A row's samples depend on its own frames alone. However frames are grouped into calls, the
    samples are the same; what has been decoded is never decoded again and never changed.

    Most decoders are causal. One that is not declares how far its audio depends on later frames,
    and is given the number of frames at the end (`CodecChunk.end`), by which it is flushed.

    Chunks are *launched* from the thread of an engine. Their frames are read where the model's
    runner has put them, if both share a device; otherwise in the memory of the host.
    """

    @property
    def sample_rate_hz(self) -> int: ...

    @property
    def samples_per_frame(self) -> int: ...

    @property
    def chunk_sizes(self) -> tuple[int, ...]:
        """Frames that one `CodecChunk` may have, ascending multiples of ``group_frames``."""

    @property
    def look_ahead_frames(self) -> int:
        """Frames after a frame that its audio depends on; `launch` reads them after a chunk's."""

    @property
    def group_frames(self) -> int:
        """Frames that are decoded together, counted from frame 0; the last group may be short."""

    def open(self, num_slots: int) -> Any:
        """Return a state with as many rows, fresh."""

    def on_stream(self, state: Any) -> AbstractContextManager[object]:
        """Return a context in which work is put on a stream of the decoder's own device."""

    def reset(self, state: Any, slot: int, conditioning: Any = None) -> None:
        """Make a row fresh again, for a request with this `Prompt.conditioning`."""

    def prime(self, state: Any, slot: int, frames: NDArray[Any]) -> None:
        """Prime a fresh row with ``frames``, ``[n, ...]``, whose audio is not used.

        Work is put on the current stream, and not waited for.
        """

    def replay(self, state: Any, slot: int, frames: NDArray[Any], num_ahead: int = 0) -> None:
        """Decode frames again, ``[n, ...]``, that became audio before their row was given up.

        They come after those that the row is primed with, in one call or in several. Later audio is
        identical to that of the row that was given up. Work is put on the current stream. The last
        ``num_ahead`` frames are look-ahead, of which there is less only at the end.
        """

    def launch(self, chunks: Sequence[CodecChunk], frame_store: Any, state: Any) -> PendingAudio:
        """Begin to decode chunks, at most one a slot, and advance their rows.

        Args:
            chunks: Chunks to decode; frames that do not exist yet give undefined audio.
            frame_store: ``[num_slots or more, num_kept, ...]``, where frame ``k`` of a slot is at
                ``k % num_kept``. A NumPy array is read before this returns; one on the device by
                work that is put on the current stream.
            state: updated in place.
        """

    def close(self) -> None:
        """Free what loading took."""


@runtime_checkable
class BatchPriming(StreamingDecoder, Protocol):
    """A decoder that primes rows side by side."""

    def prime_rows(self, state: Any, rows: Mapping[int, NDArray[Any]]) -> None:
        """Prime fresh rows, each as `StreamingDecoder.prime` does."""


@runtime_checkable
class BatchDecoder(StreamingDecoder, Protocol):
    """A decoder of batches of chunks, whose device has room for the states of few streams.

    Attributes:
        batch_chunks: chunks of a full batch; see `CodecShape`.
        max_slots: slots that it can be opened with.
    """

    batch_chunks: int
    max_slots: int


@runtime_checkable
class ElasticDecoder(StreamingDecoder, Protocol):
    """A decoder whose audio comes later than its frames, or of some frames not at all.

    A chunk becomes the audio that is certain by then, of any length, so that look-ahead need not be
    a fixed number of frames. The engine holds back a short first sound until the next one can
    follow without a gap. The rest comes with chunks of the usual sizes past ``CodecChunk.end``.
    """

    late_frames: int
    """Frames past the end that chunks reach to, until all has become audio; 1 or more."""


@runtime_checkable
class PassDecoder(StreamingDecoder, Protocol):
    """A decoder with passes of a fixed size; see `CodecShape.pass_frames`."""

    pass_frames: int
