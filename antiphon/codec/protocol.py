"""What the pipeline asks of a codec: decode each frame once, carry the state, and be exact."""

from collections.abc import Sequence
from typing import Any, Protocol

from antiphon.types import Samples


class StreamingDecoder(Protocol):
    """Turns frames into samples, a few at a time.

    However frames are grouped into calls, the samples are the same; what has been decoded is
    never decoded again and never changed. Called in worker threads; two states may be in two
    threads at once, one state never is.
    """

    @property
    def sample_rate_hz(self) -> int: ...

    @property
    def samples_per_frame(self) -> int: ...

    def open(self) -> Any:
        """Return the state of a fresh stream."""
        ...

    def decode(self, frames: Sequence[Any], state: Any) -> Samples:
        """Decode frames, advance ``state``; return ``len(frames) * samples_per_frame`` samples."""
        ...

    def close(self) -> None:
        """Free what loading took."""
        ...
