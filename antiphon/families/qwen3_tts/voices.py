"""Capabilities and voices of a checkpoint by its configuration, and checks of requests."""

from collections.abc import Collection, Mapping

from antiphon.contracts.family import SpeechCapabilities
from antiphon.contracts.languages import AUTO, language_code
from antiphon.contracts.sampling import SamplingRanges
from antiphon.contracts.types import SpeechRequest, Voice
from antiphon.errors import InvalidRequestError, UnknownVoiceError
from antiphon.families.kit.speech_budget import check_instructions
from antiphon.families.qwen3_tts.config import CheckpointTask, Qwen3TTSConfig
from antiphon.families.qwen3_tts.options import BASE_ONLY, Qwen3TTSOptions
from antiphon.families.qwen3_tts.stopping import MAX_POSITIONS

_MAX_SEGMENT_CHARACTERS = 400  # timbre drifts in long texts
_QUICK_CHARACTERS = 300  # 0.2 to 1 ms on a core of an EPYC, with the planning of the text
_VOICE_FIELDS: Mapping[CheckpointTask, tuple[str, ...]] = {
    CheckpointTask.CUSTOM_VOICE: (),
    CheckpointTask.VOICE_DESIGN: ("instructions",),
    CheckpointTask.BASE: ("ref_audio", "speaker_embedding"),
}
_DESIGNED = Voice(
    id="designed", name="Designed", description="The voice that 'instructions' describe."
)
_REFERENCE = Voice(
    id="reference",
    name="Reference",
    description="The voice of the request's 'ref_audio' or 'speaker_embedding'.",
)


def capabilities_of(config: Qwen3TTSConfig) -> SpeechCapabilities:
    """Return the capabilities of a checkpoint.

    A checkpoint without speakers of its own has one voice, which every request describes.
    """
    named = config.speakers
    speakers = tuple(Voice(id=each, name=each.replace("_", " ").title()) for each in named)
    lone = _REFERENCE if config.task is CheckpointTask.BASE else _DESIGNED
    names = config.selectable_languages
    return SpeechCapabilities(
        sample_rate_hz=config.codec.sample_rate_hz,
        voices=speakers if config.task is CheckpointTask.CUSTOM_VOICE and speakers else (lone,),
        languages=(AUTO, *names, *filter(None, map(language_code, names))),
        instructions=config.takes_instructions,
        cloning=config.task is CheckpointTask.BASE,
        needs_encoder=config.task is CheckpointTask.BASE,
        max_segment_characters=_MAX_SEGMENT_CHARACTERS,
        late_text=True,
        draws_end=True,
        words_only=config.words_only,
        voice_fields=_VOICE_FIELDS[config.task],
        sample_request=_sample_request(config),
        quick_characters=_QUICK_CHARACTERS,
        sampling=SamplingRanges(max_new_tokens=MAX_POSITIONS),
    )


def _sample_request(config: Qwen3TTSConfig) -> SpeechRequest:
    """Return a request with all fields that the checkpoint's task needs."""
    if config.task is CheckpointTask.VOICE_DESIGN:
        return SpeechRequest("Ready.", instructions="A calm voice.")
    if config.task is CheckpointTask.BASE:
        silence = (0.0,) * config.talker.transformer.hidden_size
        return SpeechRequest("Ready.", options={"speaker_embedding": silence})
    return SpeechRequest("Ready.")


def speaker_of(config: Qwen3TTSConfig, voice: Voice) -> str | None:
    """Return the built-in speaker of a voice, ``None`` without any; raises UnknownVoiceError."""
    if config.task is not CheckpointTask.CUSTOM_VOICE:
        return None
    name = voice.id.casefold()
    if name not in config.speakers:
        raise UnknownVoiceError(voice.id, config.speakers)
    return name


def check_task(
    config: Qwen3TTSConfig, options: Qwen3TTSOptions, recordings: Collection[str] = ()
) -> None:
    """Refuse a task that the checkpoint was not trained for; raises InvalidRequestError."""
    task = config.task.title().replace("_", "")
    if options.task_type not in (None, task):
        raise InvalidRequestError(
            f"This Qwen3-TTS {task} checkpoint does not support task_type='{options.task_type}'."
            f" Use task_type='{task}' or leave it out.",
            param="task_type",
        )
    if config.task is CheckpointTask.BASE:
        return
    given = {name for name, value in options if value is not None}.union(recordings)
    for param in BASE_ONLY:
        if param in given:
            message = f"'{param}' is only valid for Base task; this is a {task} checkpoint."
            raise InvalidRequestError(message, param=param)


def instructions_of(config: Qwen3TTSConfig, instructions: str | None) -> str:
    """Return the instructions that begin the prompt, ``""`` for none; raises InvalidRequestError.

    They are ignored by checkpoints that take none, as in the official code.
    """
    if not config.takes_instructions:
        return ""
    text = check_instructions(instructions if instructions and instructions.strip() else "")
    if not text and config.task is CheckpointTask.VOICE_DESIGN:
        raise InvalidRequestError(
            "VoiceDesign task requires 'instructions' to describe the voice.", param="instructions"
        )
    return text
