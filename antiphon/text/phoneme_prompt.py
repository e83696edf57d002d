"""Prompts of networks that speak a sentence of phonemes at once, and the silence between sentences.

These networks surround every sentence with silence, some 275 ms before and 450 ms after. Left as it
is, a listener would wait a quarter of a second more for the first sound, and sentences would be
0.7 s apart, twice what a human reader leaves.
"""

from dataclasses import dataclass

from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import SpeechRequest, Voice
from antiphon.text.base import ReadWord, SentenceIds, TextReader

_LEAD_MS = 50  # the breath before a soft consonant
_PAUSE_MS = 250  # with the next lead, 300 ms between sentences


@dataclass(frozen=True, slots=True)
class SentencePauses:
    """Silence around sentences, in frames of a network, each of which lasts ``frame_ms``."""

    frame_ms: float

    @property
    def lead_frames(self) -> int:
        return round(_LEAD_MS / self.frame_ms)

    @property
    def pause_frames(self) -> int:
        """Usual frames after a sentence."""
        return round(_PAUSE_MS / self.frame_ms)


@dataclass(frozen=True, slots=True)
class PhonemePrompt:
    """Input of a generator.

    Attributes:
        voice: a voice of the model, or a mix of them.
        sentences: phoneme ids of each; none if the text has nothing to pronounce.
        words: words of each sentence, if word timestamps are requested.
        pause_ms: silence between sentences, including the lead of the next one; ``None``: as usual.
    """

    voice: str
    sentences: tuple[SentenceIds, ...]
    words: tuple[tuple[ReadWord, ...], ...] = ()
    pause_ms: int | None = None

    @classmethod
    def build(cls, request: SpeechRequest, voice: Voice, seed: int, reader: TextReader) -> Prompt:
        """Read the text of a request; characters without a reading are left out."""
        sentences = reader.read(request.input)
        words = reader.read_words(request.input) if request.word_timestamps else ()
        return Prompt(
            data=cls(voice.id, sentences, words, request.sentence_pause_ms),
            num_tokens=sum(map(len, sentences)),
            seed=seed,
            sampling=request.sampling,
        )

    def frames_after(self, index: int, pauses: SentencePauses) -> int:
        """Return the frames of silence after a sentence, the last of which has no more than usual.

        What follows the last one may be the end of the text.
        """
        if self.pause_ms is None:
            return pauses.pause_frames
        wanted = max(0, round(self.pause_ms / pauses.frame_ms) - pauses.lead_frames)
        is_last = index == len(self.sentences) - 1
        return min(wanted, pauses.pause_frames) if is_last else wanted
