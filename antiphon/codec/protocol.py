"""What the pipeline asks of a codec: decode each frame once, carry the state, and be exact."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from antiphon.engine.plan import CodecChunk
from antiphon.types import Samples


class PendingAudio(Protocol):
    """Chunks that are being decoded."""

    @property
    def is_done(self) -> bool:
        """Whether `result` returns at once."""
        ...

    def result(self) -> Mapping[int, Samples]:
        """Wait for the chunks; called once.

        Returns:
            Of each slot, ``[num_frames * samples_per_frame]``.
        """
        ...


class StreamingDecoder(Protocol):
    """Decodes streams side by side, each in a row of a state; called from one thread at a time.

    A row's samples depend on its own frames alone. However frames are grouped into calls, the
    samples are the same; what has been decoded is never decoded again and never changed.

    There are two ways in. A decoder that shares its thread with the engine is *launched*: it reads
    frames where the model's runner has put them, and nobody waits. A decoder that is somewhere else
    is given frames by `decode`.
    """

    @property
    def sample_rate_hz(self) -> int: ...

    @property
    def samples_per_frame(self) -> int: ...

    @property
    def chunk_sizes(self) -> tuple[int, ...]:
        """Frames that one `CodecChunk` may have, ascending."""
        ...

    def open(self, num_slots: int) -> Any:
        """Return a state with as many rows, fresh."""
        ...

    def reset(self, state: Any, slot: int) -> None:
        """Make a row fresh again."""
        ...

    def prime(self, state: Any, slot: int, frames: NDArray[Any]) -> None:
        """Prime a fresh row with ``frames``, ``[n, ...]``, whose audio is not used.

        Work is put on the current stream, and not waited for.
        """
        ...

    def replay(self, state: Any, slot: int, frames: NDArray[Any]) -> None:
        """Decode frames again, ``[n, ...]``, that became audio before their row was given up.

        They come after those that the row is primed with. What is decoded next is what it would
        have been in the row that was given up, to the last bit. Work is put on the current stream.
        """
        ...

    def launch(self, chunks: Sequence[CodecChunk], frame_store: Any, state: Any) -> PendingAudio:
        """Begin to decode chunks, at most one a slot, and advance their rows.

        Args:
            chunks: which frames; some may not have been made, their audio means nothing.
            frame_store: ``[num_slots or more, num_kept, ...]``, where frame ``k`` of a slot is at
                ``k % num_kept``; on the device, read by work that is put on the current stream, or
                an array of the host, which is read at once.
            state: updated in place.
        """
        ...

    def decode(self, frames: NDArray[Any], state: Any, active: NDArray[np.bool_]) -> Samples:
        """Decode ``frames[slot]`` where ``active[slot]`` and advance these rows only.

        Args:
            frames: ``[num_slots, n, ...]``; what inactive rows hold means nothing.
            state: updated in place.
            active: ``[num_slots]``.

        Returns:
            ``[num_slots, n * samples_per_frame]``.
        """
        ...

    def close(self) -> None:
        """Free what loading took."""
        ...
