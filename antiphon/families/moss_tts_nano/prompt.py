"""Prompts from requests, as arguments of the model's own streaming method."""

from dataclasses import dataclass
from pathlib import Path

from antiphon.contracts.family import LoadContext, SpeechCapabilities
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import SpeechRequest, Voice
from antiphon.errors import ModelLoadError, UnknownVoiceError
from antiphon.families.moss_tts_nano.checkpoint import MossVoice, read_checkpoint

_MAX_SEGMENT_CHARACTERS = 300
"""About 25 s of speech; the model generates at most 30 s at a time."""


@dataclass(frozen=True, slots=True)
class MossPrompt:
    """Input of the generator."""

    text: str
    voice: MossVoice


class MossPrompter:
    """Builds prompts; the model tokenizes the text itself."""

    def __init__(self, context: LoadContext) -> None:
        """Read the checkpoint's configuration; raises ModelLoadError."""
        found = read_checkpoint(check_trust(context))
        self._voices = found.voices
        self.capabilities = SpeechCapabilities(
            sample_rate_hz=found.sample_rate_hz,
            channels=found.channels,
            voices=tuple(_voice(name, each) for name, each in found.voices.items()),
            max_segment_characters=_MAX_SEGMENT_CHARACTERS,
        )

    def build(self, request: SpeechRequest, voice: Voice, seed: int) -> Prompt:
        """Build the prompt of one segment; a character counts as a token.

        Raises:
            UnknownVoiceError: the checkpoint has no such voice.
        """
        if voice.id not in self._voices:
            raise UnknownVoiceError(voice.id, self._voices)
        text = request.input.strip()
        return Prompt(
            data=MossPrompt(text, self._voices[voice.id]),
            num_tokens=len(text),
            seed=seed,
            sampling=request.sampling,
        )


def _voice(name: str, voice: MossVoice) -> Voice:
    described = "as the model likes" if voice.recording is None else "from a recording"
    return Voice(id=name, name=name, description=described)


def check_trust(context: LoadContext) -> Path:
    """Return the checkpoint's directory if its code may be run; raises ModelLoadError."""
    path = context.checkpoint
    if not context.trusts_remote_code:
        files = ", ".join(sorted(file.name for file in path.glob("*.py"))) or "none"
        raise ModelLoadError(
            f"{path}: this model is run by Python code of its checkpoint ({files}), which"
            " may do whatever this process may. Read it, and if you trust it set"
            " model.trust_remote_code (--trust-remote-code); of a further model, set it in"
            " its own table, [[models.more]]."
        )
    return path
