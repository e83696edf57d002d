"""What the voice encoder is asked for."""

from dataclasses import dataclass
from typing import Literal

from antiphon.types import Samples


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """What a prompt of the stage holds.

    Attributes:
        samples: mono at the codec's rate, float32 ``[num_samples]``.
        wanted: the speaker vector, or the codes.
    """

    samples: Samples
    wanted: Literal["speaker", "codes"]
