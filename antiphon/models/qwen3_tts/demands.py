"""What a checkpoint asks of a request: each task has fields that it needs and fields it lacks."""

import math

from antiphon.errors import InvalidRequestError
from antiphon.models.qwen3_tts.config import Qwen3TTSConfig, Task
from antiphon.models.qwen3_tts.options import BASE_ONLY, Qwen3TTSOptions
from antiphon.types import Sampling

MAX_INSTRUCTIONS_CHARACTERS = 2000
TASK_NAMES = {
    Task.CUSTOM_VOICE: "CustomVoice",
    Task.VOICE_DESIGN: "VoiceDesign",
    Task.BASE: "Base",
}


def check_task(config: Qwen3TTSConfig, options: Qwen3TTSOptions) -> None:
    """Refuse a task that the checkpoint was not trained for, and fields of such a task.

    Raises:
        InvalidRequestError: naming the field.
    """
    task = TASK_NAMES[config.task]
    if options.task_type not in (None, task):
        raise InvalidRequestError(
            f"Qwen3-TTS {task} checkpoint does not support task_type='{options.task_type}'."
            f" Use task_type='{task}' or leave it out.",
            param="task_type",
        )
    if config.task is Task.BASE:
        return
    given = {name for name, value in options if value is not None}
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
            f"Instructions too long (max {MAX_INSTRUCTIONS_CHARACTERS} characters).",
            param="instructions",
        )
    if not said and config.task is Task.VOICE_DESIGN:
        raise InvalidRequestError(
            "VoiceDesign task requires 'instructions' to describe the voice.", param="instructions"
        )
    return said


def check_sampling(sampling: Sampling) -> None:
    """Refuse sampling parameters that mean nothing.

    Raises:
        InvalidRequestError: naming the parameter.
    """
    temperature, top_k, top_p = sampling.temperature, sampling.top_k, sampling.top_p
    penalty, max_frames = sampling.repetition_penalty, sampling.max_frames
    if temperature is not None and not (temperature >= 0 and math.isfinite(temperature)):
        raise _out_of_range("temperature", temperature, "a finite number, not negative")
    if top_k is not None and top_k < 0:
        raise _out_of_range("top_k", top_k, "not negative; 0 keeps all")
    if top_p is not None and not 0 < top_p <= 1:
        raise _out_of_range("top_p", top_p, "above 0 and at most 1")
    if penalty is not None and not (penalty > 0 and math.isfinite(penalty)):
        raise _out_of_range("repetition_penalty", penalty, "a finite number above 0")
    if max_frames is not None and max_frames < 1:
        raise _out_of_range("max_frames", max_frames, "at least 1")


def _out_of_range(param: str, value: float, allowed: str) -> InvalidRequestError:
    return InvalidRequestError(f"Invalid '{param}': {value}. It must be {allowed}.", param=param)
