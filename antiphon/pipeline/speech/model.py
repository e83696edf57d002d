"""Models that speak, the voices that they have, and other spellings of their names.

Clients of Kokoro-FastAPI call a voice ``af_heart`` (language, gender, name), and a mix
``af_bella(2)+af_sky(1)``.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from antiphon.contracts.family import SpeechCapabilities, VoiceCapabilities
from antiphon.contracts.prompt import Prompt, Prompter, SupportsVoiceNames
from antiphon.contracts.types import SpeechRequest, Voice
from antiphon.errors import UnknownVoiceError
from antiphon.pipeline.runtime import LoadedTask

SPEECH = "speech"
DEFAULT_VOICE = "default"

_MAX_NAME_CHARACTERS = 500
_WARM_UP_FRAMES = 16
_BETWEEN = re.compile(r"\+|-(?=[a-z][fm]_)", re.IGNORECASE)
_WEIGHT = re.compile(r"\(\s*[0-9]*\.?[0-9]+\s*\)$")
_PREFIX = re.compile(r"[a-z][fm]_(?=\w)", re.IGNORECASE)


class VoiceModel(LoadedTask):
    """A model that is ready to speak, whatever it reads."""

    @property
    def capabilities(self) -> VoiceCapabilities:
        """What the loaded checkpoint can do."""
        capabilities: VoiceCapabilities = self.prompter.capabilities
        return capabilities

    def voice(self, name: str | None, aliases: Mapping[str, str]) -> Voice:
        """Return the voice of this name, in any case, or that the name is an alias of.

        Raises:
            UnknownVoiceError: there is none.
        """
        found = self.own_voice(name, aliases)
        if found is None:
            raise self.unknown_voice(name, aliases)
        return found

    def own_voice(self, name: str | None, aliases: Mapping[str, str]) -> Voice | None:
        """Return the voice of this name or alias, if the model comes with it or can make it."""
        voices = self.capabilities.voices
        wanted = (name or DEFAULT_VOICE).casefold()
        by_id = {voice.id.casefold(): voice for voice in voices}
        default = by_id.get(aliases.get(DEFAULT_VOICE, "").casefold(), voices[0])
        for candidate in (wanted, aliases.get(wanted, "").casefold()):
            if candidate == DEFAULT_VOICE:
                return default
            if candidate in by_id:
                return by_id[candidate]
        if name is not None and isinstance(self.prompter, SupportsVoiceNames):
            return self.prompter.named_voice(name)
        return None

    def unknown_voice(
        self, name: str | None, aliases: Mapping[str, str], uploaded: Iterable[str] = ()
    ) -> UnknownVoiceError:
        """Return the error for a voice that is not among the model's own and those uploaded."""
        own = (voice.id for voice in self.capabilities.voices)
        return UnknownVoiceError(name or "", [*own, *uploaded, *aliases])


class SpeechModel(VoiceModel):
    """A model that is ready to speak texts."""

    task_name = SPEECH
    prompter: Prompter

    @property
    def capabilities(self) -> SpeechCapabilities:
        """What the loaded checkpoint can do."""
        return self.prompter.capabilities

    async def prepare_to_encode(self, options: Mapping[str, Any]) -> None:
        """Load the stages if ``options`` have a recording, which its prompts ask the encoder for.

        Prompts are built in worker threads, where loading would keep others waiting.

        Raises:
            ModelLoadingError: they are not loaded in time; loading goes on.
            ModelLoadError: they cannot be served.
        """
        if self._has_recording(options):
            async with self._pool.held(self._stages):
                pass

    def builds_at_once(self, num_characters: int, request: SpeechRequest) -> bool:
        """Whether a prompt of so much of a request's text is built too quickly for a thread."""
        others = (request.instructions, *request.options.values())
        num_characters += sum(len(other) for other in others if isinstance(other, str))
        is_short = num_characters < self.capabilities.quick_characters
        return is_short and not self._has_recording(request.options)

    def _has_recording(self, options: Mapping[str, Any]) -> bool:
        return any(isinstance(options.get(name), np.ndarray) for name in self.task.recordings)

    def spellings(self, name: str | None) -> Iterator[str | None]:
        """Yield a voice's name, and others that it may stand for, the likeliest first."""
        yield name
        yield from other_spellings(name, of_mixes=not isinstance(self.prompter, SupportsVoiceNames))

    def sample_prompt(self) -> Prompt:
        sampling = replace(self.task.sampling, max_frames=_WARM_UP_FRAMES)
        request = replace(self.capabilities.sample_request, sampling=sampling)
        return self.prompter.build(request, self.capabilities.voices[0], 0)


def is_prefixed_voice(name: str | None) -> bool:
    """Whether a voice, or each of a mix, is named as clients of Kokoro-FastAPI name it."""
    if name is None or len(name) > _MAX_NAME_CHARACTERS:
        return False
    return all(_PREFIX.match(part.strip()) for part in _BETWEEN.split(name))


def other_spellings(name: str | None, *, of_mixes: bool = True) -> Iterator[str]:
    """Yield names that may be meant by one that is unknown, the likeliest first.

    Of a mix, these are its voices in their order; of each, its last part after the whole. There
    are none without ``of_mixes``, where voices are mixed.
    """
    if name is None or len(name) > _MAX_NAME_CHARACTERS:
        return
    parts = _BETWEEN.split(name)
    if len(parts) > 1 and not of_mixes:
        return
    for part in parts:
        voice = _WEIGHT.sub("", part.strip()).strip()
        short = _PREFIX.sub("", voice, count=1)
        yield from (each for each in dict.fromkeys((voice, short)) if each and each != name)
