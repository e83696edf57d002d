"""What the voice encoder is asked for."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from antiphon.types import Samples

Wanted: TypeAlias = Literal["speaker", "tokens", "mel"]
WANTED: tuple[Wanted, ...] = ("speaker", "tokens", "mel")


@dataclass(frozen=True, slots=True, eq=False)
class CosyVoice3Recording:
    """What a prompt of the stage holds.

    Attributes:
        samples: mono at the model's rate, float32 ``[num_samples]``.
        wanted: the speaker vector, the speech tokens, or the mel frames.
    """

    samples: Samples
    wanted: Wanted


def second_of_noise(rate_hz: int, wanted: Wanted) -> CosyVoice3Recording:
    """Return what encoders are warmed with; the same every time."""
    samples = np.random.default_rng(0).normal(0, 0.1, rate_hz).astype(np.float32)
    return CosyVoice3Recording(samples, wanted)
