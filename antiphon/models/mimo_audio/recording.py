"""What recordings of voices may be, and one to warm encoders with."""

import numpy as np

from antiphon.types import Samples

MIN_RECORDING_S, MAX_RECORDING_S = 0.5, 30


def noise(rate_hz: int) -> Samples:
    """Return a second of what encoders are warmed with; the same every time."""
    return np.random.default_rng(0).normal(0, 0.1, rate_hz).astype(np.float32)
