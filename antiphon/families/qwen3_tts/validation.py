"""Checks of a request against its checkpoint's task: required and unsupported fields."""

from collections.abc import Collection

from antiphon.errors import InvalidRequestError
from antiphon.families.qwen3_tts.config import CheckpointTask, Qwen3TTSConfig
from antiphon.families.qwen3_tts.options import BASE_ONLY, Qwen3TTSOptions

MAX_INSTRUCTIONS_CHARACTERS = 2000
TASK_NAMES = {
    CheckpointTask.CUSTOM_VOICE: "CustomVoice",
    CheckpointTask.VOICE_DESIGN: "VoiceDesign",
    CheckpointTask.BASE: "Base",
}


def check_task(
    config: Qwen3TTSConfig, options: Qwen3TTSOptions, recordings: Collection[str] = ()
) -> None:
    """Refuse a task that the checkpoint was not trained for, and fields of such a task.

    Args:
        config: configuration of the checkpoint.
        options: options of the request.
        recordings: names of further options that are not loaded yet.

    Raises:
        InvalidRequestError: a field is missing or unsupported; the message names it.
    """
    task = TASK_NAMES[config.task]
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
        if param not in given:
            continue
        raise InvalidRequestError(
            f"'{param}' is only valid for Base task; this is a {task} checkpoint.", param=param
        )


def check_instructions(config: Qwen3TTSConfig, instructions: str | None) -> str:
    """Return the instructions at the beginning of the prompt, ``""`` for none.

    They are ignored by checkpoints that take none, as in the official code.

    Raises:
        InvalidRequestError: they are too long, or missing although they describe the voice.
    """
    if not config.takes_instructions:
        return ""
    said = instructions if instructions and instructions.strip() else ""
    if len(said) > MAX_INSTRUCTIONS_CHARACTERS:
        raise InvalidRequestError(
            f"Invalid 'instructions': {len(said)} characters; at most"
            f" {MAX_INSTRUCTIONS_CHARACTERS} are allowed.",
            param="instructions",
        )
    if not said and config.task is CheckpointTask.VOICE_DESIGN:
        raise InvalidRequestError(
            "VoiceDesign task requires 'instructions' to describe the voice.",
            param="instructions",
        )
    return said
