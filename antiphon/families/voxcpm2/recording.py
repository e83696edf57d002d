"""What the voice encoder is asked for."""

from dataclasses import dataclass

from antiphon.contracts.types import Samples
from antiphon.families.kit.recordings import warm_up_samples

MAX_RECORDING_S = 60


@dataclass(frozen=True, slots=True, eq=False)
class RecordedVoice:
    """What a prompt of the stage holds.

    Attributes:
        samples: mono at the rate of what is spoken, float32 ``[num_samples]``.
        is_continued: whether speech goes on where it ends.
        param: of the request, that brought it.
    """

    samples: Samples
    is_continued: bool
    param: str = "ref_audio"


def noise(duration_s: float, rate_hz: int) -> RecordedVoice:
    """Return what encoders are warmed with; the same every time."""
    return RecordedVoice(warm_up_samples(rate_hz, duration_s), is_continued=False)
