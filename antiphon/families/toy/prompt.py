"""Text to letters, voice to a base pitch."""

from dataclasses import dataclass

from antiphon.contracts.family import LoadContext, SpeechCapabilities
from antiphon.contracts.prompt import Piece, Prompt
from antiphon.contracts.types import SpeechRequest, Voice
from antiphon.errors import InvalidRequestError

SAMPLE_RATE_HZ = 24_000
BASE_PITCH_HZ = {"sine": 220.0, "alto": 330.0, "bass": 110.0}
FRAMES_PER_LETTER = 2


@dataclass(frozen=True, slots=True)
class Letters:
    """Input of the toy: one number per letter, and the base pitch."""

    letters: tuple[int, ...]
    base_pitch_hz: float


class LetterFeed:
    """Makes the pieces of a request whose text is still arriving."""

    def __init__(self, num_letters: int) -> None:
        """Continue a prompt of so many letters."""
        self._num_letters = num_letters

    def push(self, text: str) -> Piece | None:
        """Read more text; return the ids that it adds."""
        if not text:
            return None
        self._num_letters += len(text)
        return Piece(data=_letters(text), num_frames_allowed=self._num_letters * FRAMES_PER_LETTER)

    def close(self) -> Piece:
        """Return the last piece; raises InvalidRequestError if the whole text was empty."""
        if not self._num_letters:
            raise InvalidRequestError("Input text cannot be empty.", param="input")
        return Piece(data=(), num_frames_allowed=None)


class ToyPrompter:
    def __init__(self, context: LoadContext) -> None:
        self.capabilities = SpeechCapabilities(
            sample_rate_hz=SAMPLE_RATE_HZ,
            voices=tuple(Voice(id=name, name=name.title()) for name in BASE_PITCH_HZ),
            languages=("english", "german"),
            max_segment_characters=200,
            draws_end=True,
        )

    def build(self, request: SpeechRequest, voice: Voice, seed: int) -> Prompt:
        return _prompt(request, voice, seed, num_frames_allowed=None)

    def open(self, request: SpeechRequest, voice: Voice, seed: int) -> tuple[Prompt, LetterFeed]:
        """Build the prompt of a text that is still arriving, and what makes pieces of the rest."""
        num_letters = len(request.input)
        allowed = num_letters * FRAMES_PER_LETTER
        return _prompt(request, voice, seed, num_frames_allowed=allowed), LetterFeed(num_letters)


def _prompt(
    request: SpeechRequest, voice: Voice, seed: int, *, num_frames_allowed: int | None
) -> Prompt:
    letters = _letters(request.input)
    return Prompt(
        data=Letters(letters, BASE_PITCH_HZ[voice.id]),
        num_tokens=len(letters),
        seed=seed,
        sampling=request.sampling,
        num_frames_allowed=num_frames_allowed,
        num_positions=len(letters),
        position_keys=letters,
    )


def _letters(text: str) -> tuple[int, ...]:
    return tuple(map(ord, text))
