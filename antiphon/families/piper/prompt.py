"""A request becomes symbols, sentence by sentence: all that a voice's network reads."""

from dataclasses import dataclass

from antiphon.contracts.family import LoadContext, SpeechCapabilities
from antiphon.contracts.languages import resolve_language
from antiphon.contracts.prompt import Prompt, TextCheck
from antiphon.contracts.types import SpeechRequest, Voice
from antiphon.contracts.well_formed import read_options
from antiphon.errors import UnknownVoiceError
from antiphon.families.piper.options import PiperOptions
from antiphon.families.piper.phonemes import Phonemizer, SymbolSequence, phonemizer_of
from antiphon.families.piper.voice_files import InferenceScales, PiperModel, read_models

_MAX_SEGMENT_CHARACTERS = 400
_LOUDNESS_LUFS = {"en_US-joe-medium": -25.1}
"""Measured integrated loudness of voices in packages, by FFmpeg's ebur128."""


@dataclass(frozen=True, slots=True)
class PiperPrompt:
    """Input of the generator.

    Attributes:
        speaker: number of the speaker, if the network has several.
        sentences: none if the text has nothing to pronounce.
        tells_times: whether the times of words are wanted.
        pause_ms: least silence between sentences; ``None`` for what the network makes.
    """

    model: str
    speaker: int | None
    sentences: tuple[SymbolSequence, ...]
    scales: InferenceScales
    tells_times: bool = False
    pause_ms: int | None = None


class PiperPrompter:
    """Builds prompts; holds dictionaries only, so it may be called from any thread."""

    def __init__(self, context: LoadContext) -> None:
        """Read the configuration that all voices of the directory share; raises ModelLoadError."""
        models = read_models(context.checkpoint)
        self._models = {voice.lower(): model for model in models for voice in model.voices}
        self._phonemizers: dict[str, Phonemizer] = {
            model.name: phonemizer_of(model) for model in models
        }
        names = dict.fromkeys(name for model in models for name in model.language_names)
        self.capabilities = SpeechCapabilities(
            sample_rate_hz=models[0].sample_rate_hz,
            voices=tuple(_voice(name, model) for model in models for name in model.voices),
            languages=tuple(names),
            max_segment_characters=_MAX_SEGMENT_CHARACTERS,
            word_times=True,
            writes_out=all(model.phoneme_type != "text" for model in models),
        )

    def check_text(self, text: str, voice: Voice, language: str | None = None) -> TextCheck:
        """Return the parts of the text that the voice leaves out."""
        return self._phonemizers[self._models[voice.id.lower()].name].check(text)

    def build(self, request: SpeechRequest, voice: Voice, seed: int) -> Prompt:
        """Read the text; characters without a symbol of the voice are left out.

        Raises:
            UnknownVoiceError: the voice is none of this directory.
            InvalidRequestError: the language is not the voice's, or an option is wrong.
        """
        model = self._models.get(voice.id.lower())
        if model is None:
            raise UnknownVoiceError(voice.id, self._models)
        resolve_language(request.language, model.language_names)
        options = read_options(PiperOptions, request.options)
        sentences = self._phonemizers[model.name].read(request.input)
        prompt = PiperPrompt(
            model.name,
            model.voices[voice.id],
            sentences,
            _scales(model.scales, options),
            request.word_timestamps,
            request.sentence_pause_ms,
        )
        return Prompt(
            data=prompt,
            num_tokens=sum(len(sentence.ids) for sentence in sentences),
            seed=seed,
            sampling=request.sampling,
        )


def _voice(name: str, model: PiperModel) -> Voice:
    language = model.language_code.replace("_", "-") or model.espeak_voice or None
    description = f"{model.sample_rate_hz} Hz"
    if model.speakers:
        description += f", speaker {model.speakers[name]} of {model.name}"
    return Voice(
        id=name,
        name=name,
        language=language,
        description=description,
        loudness_lufs=_LOUDNESS_LUFS.get(name),
    )


def _scales(file: InferenceScales, options: PiperOptions) -> InferenceScales:
    def chosen(asked: float | None, default: float) -> float:
        return default if asked is None else asked

    return InferenceScales(
        chosen(options.length_scale, file.length_scale),
        chosen(options.noise_scale, file.noise_scale),
        chosen(options.noise_w, file.noise_w),
    )
