"""What the voice encoder is asked for."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from antiphon.contracts.types import Samples
from antiphon.families.kit.recordings import warm_up_samples

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
    return CosyVoice3Recording(warm_up_samples(rate_hz), wanted)
