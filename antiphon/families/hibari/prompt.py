"""A request becomes phonemes, sentence by sentence: all that hibari reads."""

import json
from functools import lru_cache
from pathlib import Path

from hibari.tts import ASSETS, MAX_PHONEMES

from antiphon.contracts.family import LoadContext, SpeechCapabilities
from antiphon.contracts.languages import resolve_language
from antiphon.contracts.prompt import Prompt, TextCheck
from antiphon.contracts.types import SpeechRequest, Voice
from antiphon.errors import UnknownVoiceError
from antiphon.families.hibari.vocoder import SAMPLE_RATE_HZ
from antiphon.families.hibari.voices import installed_voices
from antiphon.text.english import EnglishReader
from antiphon.text.phoneme_prompt import PhonemePrompt

_LANGUAGES = ("english", "en", "en-us", "en-gb")  # The accent is the voice's, whichever is asked.
_MAX_SEGMENT_CHARACTERS = 400


class HibariPrompter:
    """Builds prompts; holds dictionaries only, so it may be called from any thread."""

    def __init__(self, context: LoadContext) -> None:
        """Load the dictionaries of all installed voices (``context`` changes nothing)."""
        voices = installed_voices()
        self._readers = {
            name: reader(british=installed.british) for name, installed in voices.items()
        }
        self.capabilities = SpeechCapabilities(
            sample_rate_hz=SAMPLE_RATE_HZ,
            voices=tuple(installed.voice for installed in voices.values()),
            languages=_LANGUAGES,
            max_segment_characters=_MAX_SEGMENT_CHARACTERS,
            word_times=True,
            writes_out=True,
        )

    def check_text(self, text: str, voice: Voice, language: str | None = None) -> TextCheck:
        """Return the words without an English reading."""
        return self._readers[voice.id].check(text)

    def build(self, request: SpeechRequest, voice: Voice, seed: int) -> Prompt:
        """Read the text; characters without an English reading (emoji, other scripts) are left out.

        See `check_text` for what that is.

        Raises:
            UnknownVoiceError: the voice is not one of this machine.
            InvalidRequestError: the language is not English.
        """
        if voice.id not in self._readers:
            raise UnknownVoiceError(voice.id, self._readers)
        resolve_language(request.language, _LANGUAGES)
        return PhonemePrompt.build(request, voice, seed, self._readers[voice.id])


@lru_cache(maxsize=2)
def reader(*, british: bool) -> EnglishReader:
    """Return this process's reader for an accent: its dictionaries are loaded once."""
    vocabulary = Path(ASSETS, "vocab.json").read_text(encoding="utf-8")
    return EnglishReader(json.loads(vocabulary), british=british, max_phonemes=MAX_PHONEMES)
