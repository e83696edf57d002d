"""Members of a body for a picture that only the model's family knows, and unknown ones."""

from collections.abc import Collection, Mapping
from typing import Any

from antiphon.api.schemas.pictures import PictureBody
from antiphon.errors import InvalidRequestError
from antiphon.models.spec import Task

_NOT_SERVED: Mapping[str, str] = {
    "lora": "No adapters are loaded here.",
    "layers": "Images have one layer.",
    "strength": "The model decides how much of an image it changes.",
    "input_references": "Send one image, in 'input_reference'.",
    "video_reference": "Send an image, in 'input_reference'.",
    "audio_reference": "Videos have no sound.",
    "system_prompt": "Say all in 'prompt'.",
}
"""Fields of other servers that would change the picture, and what to do instead."""

_OF_ENGINES = frozenset(
    {
        *("generator_device", "vae_use_slicing", "vae_use_tiling"),
        *("return_stage_metrics", "annotations", "moderation", "style", "input_fidelity"),
    }
)
"""Fields that change no picture; nobody needs to be told that they mean nothing."""


def family_options(
    body: PictureBody, task: Task, read: Collection[str] = ()
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the options that the family knows, and the names of members that nobody does.

    Args:
        body: of the request.
        task: of the model.
        read: names of further members that have been read already.

    Raises:
        InvalidRequestError: one would change the picture, and is not served.
    """
    known = task.options.model_fields
    members = body.model_extra or {}
    options = {name: value for name, value in members.items() if name in known}
    unknown = [name for name in members if name not in known and name not in read]
    for name in unknown:
        if name in _NOT_SERVED:
            raise InvalidRequestError(
                f"'{name}' is not supported here. {_NOT_SERVED[name]}", param=name
            )
    return options, tuple(name for name in unknown if name not in _OF_ENGINES)
