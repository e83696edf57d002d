"""The forms of ElevenLabs' voices: a new one, and changes of one."""

from starlette.requests import Request

from antiphon.api.bodies import Fields
from antiphon.errors import invalid, missing
from antiphon.voices.names import checked_text
from antiphon.voices.store import NewVoice

MAX_DESCRIPTION_CHARACTERS = 1000

_FILES = ("files", "files[]")
_NO_LABELS = (None, "null", "{}")
_FALSE = (None, "null", "false", "False", "0")


async def new_voice(request: Request) -> NewVoice:
    """Read a voice that is to be added; raises InvalidRequestError."""
    fields, num_files = await _read(request)
    name = fields.required_text("name")
    if num_files > 1:
        raise invalid(
            "files",
            f"there are {num_files}. A voice is made of one recording of 1 to 30 seconds here:"
            " send the best one",
        )
    recording = fields.recording("files") or fields.recording("files[]")
    if recording is None:
        raise missing("files")
    content, media_type = recording
    return NewVoice(
        name=name, content=content, media_type=media_type, description=_description(fields)
    )


async def voice_edit(request: Request) -> tuple[str | None, str | None]:
    """Return the new name and the new description of a voice; ``None`` leaves either as it is.

    Raises:
        InvalidRequestError: a field is wrong, or cannot be changed.
    """
    fields, num_files = await _read(request)
    if num_files:
        raise invalid(
            "files",
            "the recording of a voice cannot be changed. Add another voice",
            code="not_supported",
        )
    return fields.text("name"), _description(fields)


async def _read(request: Request) -> tuple[Fields, int]:
    """Return a form's fields, and the number of its recordings; raises InvalidRequestError."""
    fields = await Fields.of(request)
    if fields.text("labels") not in _NO_LABELS:
        raise invalid("labels", "labels are not kept: use 'description'", "not_supported")
    if fields.text("remove_background_noise") not in _FALSE:
        raise invalid(
            "remove_background_noise", "recordings are taken as they are", "not_supported"
        )
    return fields, sum(fields.num_given.get(name, 0) for name in _FILES)


def _description(fields: Fields) -> str | None:
    text = fields.text("description")
    if text is None:
        return None
    return checked_text(text, "description", MAX_DESCRIPTION_CHARACTERS) or None
