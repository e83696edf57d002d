"""What the pipeline asks of a codec: decode each frame once, carry the state, and be exact."""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from antiphon.types import Samples


class StreamingDecoder(Protocol):
    """Decodes streams side by side, each in a row of a state; called from one thread at a time.

    A row's samples depend on its own frames alone. However frames are grouped into calls, the
    samples are the same; what has been decoded is never decoded again and never changed.
    """

    @property
    def sample_rate_hz(self) -> int: ...

    @property
    def samples_per_frame(self) -> int: ...

    def open(self, num_slots: int) -> Any:
        """Return a state with as many rows, fresh."""
        ...

    def reset(self, state: Any, slot: int) -> None:
        """Make a row fresh again."""
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
