"""What families that clone voices share: what was made of recordings lately, and one to warm up."""

import hashlib
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

import numpy as np

from antiphon.concurrency import SingleFlightLRU
from antiphon.contracts.types import Samples

ValueT = TypeVar("ValueT")


class KeptRecordings(Generic[ValueT]):
    """Keeps for a while what was made of a recording: one sent with every request is encoded once.

    Recordings are told apart by their samples. Safe for threads.
    """

    def __init__(self, max_kept: int) -> None:
        """Begin with nothing kept."""
        self._kept: SingleFlightLRU[tuple[bytes, Hashable], ValueT] = SingleFlightLRU(max_kept)

    def get(self, samples: Samples, make: Callable[[], ValueT], purpose: Hashable = None) -> ValueT:
        """Return what ``make`` makes of a recording for a purpose, or has made before."""
        return self._kept.get((hashlib.sha256(samples.tobytes()).digest(), purpose), make)


def warm_up_samples(rate_hz: int, duration_s: float = 1.0) -> Samples:
    """Return the noise that encoders are warmed with, the same every time."""
    size = round(duration_s * rate_hz)
    return np.random.default_rng(0).normal(0, 0.1, size).astype(np.float32)


def known_text(text: str | None) -> str | None:
    """Return what a recording says, ``None`` if that is not known, as of a blank text."""
    return text if text and text.strip() else None
