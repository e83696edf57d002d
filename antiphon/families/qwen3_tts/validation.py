"""What a checkpoint asks of a request: each task has fields that it needs and fields it lacks."""

from collections.abc import Collection

from antiphon.contracts.types import Sampling
from antiphon.errors import InvalidRequestError
from antiphon.families.qwen3_tts.config import CheckpointTask, Qwen3TTSConfig
from antiphon.families.qwen3_tts.options import (
    ALLOWED_TEMPERATURES,
    BASE_ONLY,
    MAX_FACTOR,
    MAX_TOP_K,
    MIN_FACTOR,
    Qwen3TTSOptions,
    is_temperature,
)
from antiphon.families.qwen3_tts.stopping import MAX_POSITIONS

MAX_INSTRUCTIONS_CHARACTERS = 2000
MAX_SHOWN = 1e18
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
        config: of the checkpoint.
        options: of the request.
        recordings: names of further options, which are still to be loaded.

    Raises:
        InvalidRequestError: naming the field.
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
    """Return the instructions that the prompt begins with, ``""`` for none.

    Checkpoints that take no instructions leave them out, as the official code does.

    Raises:
        InvalidRequestError: they are too long, or missing where they describe the voice.
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


def check_sampling(sampling: Sampling) -> None:
    """Refuse sampling parameters that mean nothing.

    Raises:
        InvalidRequestError: naming the parameter.
    """
    temperature, top_k, top_p = sampling.temperature, sampling.top_k, sampling.top_p
    penalty, max_frames = sampling.repetition_penalty, sampling.max_frames
    if temperature is not None and not is_temperature(temperature):
        raise _out_of_range("temperature", temperature, ALLOWED_TEMPERATURES)
    if top_k is not None and not 0 <= top_k <= MAX_TOP_K:
        raise _out_of_range("top_k", top_k, f"from 0, which keeps all, to {MAX_TOP_K}")
    if top_p is not None and not 0 < top_p <= 1:
        raise _out_of_range("top_p", top_p, "above 0 and at most 1")
    if penalty is not None and not MIN_FACTOR <= penalty <= MAX_FACTOR:
        allowed = f"from {MIN_FACTOR:g} to {MAX_FACTOR:g}"
        raise _out_of_range("repetition_penalty", penalty, allowed)
    if max_frames is not None and not 1 <= max_frames < MAX_POSITIONS:
        allowed = f"from 1 to {MAX_POSITIONS}, which is all that the model's context holds"
        raise _out_of_range("max_new_tokens", max_frames + 1, allowed)


def _out_of_range(param: str, value: float, allowed: str) -> InvalidRequestError:
    shown = f": {value}" if abs(value) < MAX_SHOWN or value != value else ""
    return InvalidRequestError(f"Invalid '{param}'{shown}. It must be {allowed}.", param=param)
