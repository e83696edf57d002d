"""What the drawn codes of the official package and of ours are compared on; needs nothing."""

from dataclasses import dataclass

CHECKPOINT = "custom"  # of `cases.CHECKPOINTS`
TEXT = "Hello there, how are you?"
SPEAKER = "ryan"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """Sampling parameters, named as the official package names them."""

    temperature: float = 0.9
    top_k: int = 50
    top_p: float = 1.0
    subtalker_temperature: float = 0.9
    subtalker_top_k: int = 50
    subtalker_top_p: float = 1.0


SAMPLINGS = (
    Drawing(),
    Drawing(
        temperature=1.2,
        top_k=20,
        top_p=0.7,
        subtalker_temperature=0.6,
        subtalker_top_k=9,
        subtalker_top_p=0.8,
    ),
)
