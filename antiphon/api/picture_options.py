"""Members of a body for a picture that only the model's family knows, and unknown ones."""

from collections.abc import Collection
from typing import Any

from antiphon.api.schemas.pictures import PictureBody
from antiphon.contracts.family import Task


def family_options(
    body: PictureBody, task: Task, read: Collection[str] = ()
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the options that the family knows, and the names of unknown members.

    Args:
        read: names of further members that have been read already.
    """
    known = task.options.model_fields
    members = body.model_extra or {}
    options = {name: value for name, value in members.items() if name in known}
    unknown = [name for name in members if name not in known and name not in read]
    return options, tuple(unknown)
