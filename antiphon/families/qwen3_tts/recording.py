"""What the voice encoder is asked for."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from antiphon.contracts.types import Samples
from antiphon.families.kit.recordings import warm_up_samples

Part: TypeAlias = Literal["speaker", "codes"]
PARTS: tuple[Part, ...] = ("speaker", "codes")
_RATE_HZ = 24_000


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """What a prompt of the stage holds.

    Attributes:
        samples: mono at the codec's rate, float32 ``[num_samples]``.
        wanted: of the voice: the speaker vector, the codes, or both.
    """

    samples: Samples
    wanted: tuple[Part, ...]


def noise(duration_s: float) -> Recording:
    """Return what encoders are warmed with; the same every time."""
    samples = warm_up_samples(_RATE_HZ, duration_s)
    return Recording(samples, PARTS)
