"""Text to letters, voice to a base pitch."""

from dataclasses import dataclass

from antiphon.models.base import Prompt
from antiphon.models.spec import Capabilities, LoadContext
from antiphon.types import SpeechRequest, Voice

SAMPLE_RATE_HZ = 24_000
BASE_PITCH_HZ = {"sine": 220.0, "alto": 330.0, "bass": 110.0}


@dataclass(frozen=True, slots=True)
class Letters:
    """What the toy reads: one number a letter, and how deep to sing."""

    letters: tuple[int, ...]
    base_pitch_hz: float


class ToyPrompter:
    """Builds prompts of letters."""

    def __init__(self, context: LoadContext) -> None:
        self.capabilities = Capabilities(
            sample_rate_hz=SAMPLE_RATE_HZ,
            voices=tuple(Voice(id=name, name=name.title()) for name in BASE_PITCH_HZ),
            languages=("english", "german"),
            max_segment_characters=200,
        )

    def build(self, request: SpeechRequest, voice: Voice, seed: int) -> Prompt:
        letters = tuple(ord(letter) for letter in request.input)
        return Prompt(
            data=Letters(letters, BASE_PITCH_HZ[voice.id]),
            num_tokens=len(letters),
            seed=seed,
            sampling=request.sampling,
        )
