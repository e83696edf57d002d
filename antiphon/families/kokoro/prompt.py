"""A request becomes phonemes, sentence by sentence: all that the networks read."""

from antiphon.contracts.family import LoadContext, SpeechCapabilities
from antiphon.contracts.prompt import Prompt, TextCheck
from antiphon.contracts.types import SpeechRequest, Voice
from antiphon.errors import ModelLoadError, UnknownVoiceError
from antiphon.families.kokoro.checkpoint import SAMPLE_RATE_HZ, read_checkpoint
from antiphon.families.kokoro.languages import KokoroReaders
from antiphon.families.kokoro.voices import describe, in_order, letter_of, parse_mix
from antiphon.text.phoneme_prompt import PhonemePrompt

_MAX_SEGMENT_CHARACTERS = 400


class KokoroPrompter:
    """Builds prompts; holds dictionaries only, so it may be called from any thread."""

    def __init__(self, context: LoadContext) -> None:
        """Load dictionaries of the languages that can be read here; raises ModelLoadError."""
        checkpoint = read_checkpoint(context.checkpoint, is_dummy=context.is_dummy)
        self._readers = KokoroReaders(checkpoint.vocabulary)
        self._voices = in_order(checkpoint.voices)
        readable = [describe(name) for name in self._voices if letter_of(name) in self._readers]
        if not readable:
            raise ModelLoadError(f"{checkpoint.path}: there is no voice of a language known here.")
        self.capabilities = SpeechCapabilities(
            sample_rate_hz=SAMPLE_RATE_HZ,
            voices=tuple(readable),
            languages=self._readers.names,
            max_segment_characters=_MAX_SEGMENT_CHARACTERS,
            word_times=True,
            writes_out=True,
            streams_bytes=True,
        )

    def named_voice(self, name: str) -> Voice | None:
        """Return a mix, or a voice whose own language cannot be read here; ``None`` if unknown."""
        name = "".join(name.split())
        for spelling in (name, name.casefold()):
            if all(part.name in self._voices for part in parse_mix(spelling)):
                return describe(spelling)
        return None

    def check_text(self, text: str, voice: Voice, language: str | None = None) -> TextCheck:
        """Return the words without a reading in the request's language, or else the voice's."""
        return self._readers.checker(language, self._letter(voice)).check(text)

    def build(self, request: SpeechRequest, voice: Voice, seed: int) -> Prompt:
        """Read the text; characters without a reading (emoji, other scripts) are left out.

        Raises:
            UnknownVoiceError: the voice is not one of the checkpoint.
            InvalidRequestError: the language cannot be read here.
        """
        if self.named_voice(voice.id) is None:
            raise UnknownVoiceError(voice.id, self._voices)
        reader = self._readers.reader(request.language, voice.id, self._letter(voice))
        return PhonemePrompt.build(request, voice, seed, reader)

    def _letter(self, voice: Voice) -> str:
        return letter_of(parse_mix(voice.id)[0].name)
