"""Members of a request's body that only the model's family knows, and the recordings among them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from urllib.parse import quote

from pydantic import ValidationError

from antiphon.api.errors import invalid_request
from antiphon.api.middleware import json_limits
from antiphon.api.middleware.memory_budget import reserve
from antiphon.api.schemas.field_rules import check_known, field_classes
from antiphon.api.schemas.kokoro import KokoroMembers
from antiphon.api.schemas.peer_fields import CLONING_FIELDS
from antiphon.api.schemas.speech import SpeechBody
from antiphon.api.state import ServerState
from antiphon.config import SpeechSettings
from antiphon.contracts.family import Task
from antiphon.contracts.types import SpeechRequest, SpeechStream
from antiphon.errors import MAX_LISTED, MAX_SHOWN_CHARACTERS, InvalidRequestError, shortened
from antiphon.pipeline.speech.model import SpeechModel
from antiphon.pipeline.speech.segment_checkpoint import SegmentCheckpoints
from antiphon.voices.recordings import Recordings

IGNORED_HEADER = "X-Ignored-Fields"
"""Names the unknown members of a body, percent-encoded."""

_AUDIO, _TEXT, _BOTH = "ref_audio", "ref_text", "references"


@dataclass(frozen=True, slots=True)
class FamilyOptions:
    """Return a body's options for the family.

    Attributes:
        values: ready to be part of a request.
        recordings: files, or addresses of files, that have to become samples first.
    """

    values: Mapping[str, Any]
    recordings: Mapping[str, str | bytes] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()

    @classmethod
    def of(cls, body: SpeechBody, task: Task) -> "FamilyOptions":
        """Pick out what the family knows.

        Raises:
            InvalidRequestError: a field is wrong, whatever the recordings turn out to be, or is
                one of another server's that would change the audio.
        """
        known = task.options.model_fields
        members = dict(body.model_extra or {})
        if _AUDIO in known:
            members = _without_alias(members)
        values = {name: value for name, value in members.items() if name in known}
        unknown = {name: value for name, value in members.items() if name not in known}
        _refuse_not_served(unknown, body.extra_params or {}, task)
        understood = {*KokoroMembers.model_fields, *CLONING_FIELDS}
        ignored = tuple(name for name in unknown if name not in understood)
        recordings = {name: values.pop(name) for name in task.recordings if name in values}
        try:
            task.options.model_validate(values)
        except ValidationError as error:
            # One message a field, whatever part of it is wrong.
            found = [{**each, "loc": ("body", *each["loc"][:1])} for each in error.errors()]
            raise invalid_request(found) from error
        for name, recording in recordings.items():
            if isinstance(recording, list) and len(recording) == 1:
                recordings[name] = recording = recording[0]
            if not isinstance(recording, str | bytes):
                raise _wrong(f"Invalid '{name}'. It must be a string: the address of a file.", name)
        return cls(values, recordings, ignored)

    @property
    def named(self) -> Mapping[str, Any]:
        """All values, the recordings as they came: enough to know who speaks."""
        return {**self.values, **self.recordings}

    async def decoded(self, recordings: Recordings, sample_rate_hz: int) -> Mapping[str, Any]:
        """Return all values; recordings become samples.

        Raises:
            InvalidRequestError: a recording cannot be had, or is not one.
            RequestTooLargeError, MemoryShareError, MemoryFullError: there is no memory for it.
        """
        files = self.recordings.items()
        samples = {name: await recordings.load(file, sample_rate_hz) for name, file in files}
        reserve(2 * sum(each.nbytes for each in samples.values()))  # and the encoder's copy
        return {**self.values, **samples}


def checked_request(
    body: SpeechBody, request: SpeechRequest, server: ServerState
) -> tuple[SpeechRequest, SpeechModel, FamilyOptions]:
    """Return a request with its body's options but recordings, its model, and all options.

    Raises:
        InvalidRequestError: names the field and what is allowed.
    """
    model = server.speech.model(request.model)
    options = FamilyOptions.of(body, model.task)
    request = replace(request, options=options.values)
    server.speech.check(request, model, options.recordings)
    return request, model, options


def open_stream(
    body: SpeechBody,
    request: SpeechRequest,
    server: ServerState,
    checkpoints: SegmentCheckpoints | None = None,
) -> SpeechStream:
    """Speak a request with the options that its body has; ``checkpoints`` as of `Speech.stream`.

    Recordings are loaded as a part of the stream, so that a listener who leaves stops that too.

    Raises:
        InvalidRequestError: here, or before the first chunk.
    """
    request, model, options = checked_request(body, request, server)
    if not options.recordings:
        return server.speech.stream(request, checkpoints, is_checked=True)
    load = partial(options.decoded, server.recordings, model.capabilities.sample_rate_hz)
    return server.speech.stream(request, checkpoints, load)


def unknown_names(names: Iterable[str], server: ServerState) -> tuple[str, ...]:
    """Return the names that no served model, and no server that is followed here, gives a field."""
    known = {*field_classes(SpeechBody), *KokoroMembers.model_fields, *CLONING_FIELDS}
    for model in server.speech.models.values():
        known.update(model.task.options.model_fields)
    return tuple(name for name in names if name not in known)


def ignored_headers(ignored: Iterable[str], settings: SpeechSettings) -> Mapping[str, str]:
    """Return the header that names unknown fields; raises InvalidRequestError."""
    names = [*dict.fromkeys(ignored)]
    if not names:
        return {}
    if settings.unknown_fields == "refuse":
        raise InvalidRequestError(
            f"Unknown field: '{shortened(names[0])}'. Leave it out: it would mean nothing.",
            param=shortened(names[0]),
            code="unknown_field",
        )
    shown = (name[:MAX_SHOWN_CHARACTERS] for name in names[:MAX_LISTED])
    return {IGNORED_HEADER: ", ".join(quote(each, safe="", errors="replace") for each in shown)}


def _refuse_not_served(
    unknown: Mapping[str, Any], extra_params: Mapping[str, Any], task: Task
) -> None:
    """Refuse what must not be ignored: it would change the audio, or was meant for the model."""
    for name, value in unknown.items():
        rule = CLONING_FIELDS.get(name)
        if rule is not None and not rule.is_off(value):
            raise InvalidRequestError(
                f"'{name}' is not supported here. {rule.advice}", param=name, code="not_supported"
            )
        if name in extra_params:
            known = ", ".join(task.options.model_fields) or "none"
            param = f"extra_params.{shortened(name)}"
            raise _wrong(
                f"Unknown parameter: '{param}'. Sampling parameters may stand there, and the"
                f" options of this model: {known}.",
                param,
            )


def _without_alias(members: dict[str, Any]) -> dict[str, Any]:
    """Replace ``references`` by the two fields that it stands for."""
    if _BOTH not in members:
        return members
    reference = _only_reference(members.pop(_BOTH))
    check_known(reference, ("audio_path", "text"), f"{_BOTH}.0")
    audio, text = reference.get("audio_path"), reference.get("text")
    if not isinstance(audio, str) or not audio:
        raise _wrong("'references[0].audio_path' is required: the address of a file.", _BOTH)
    if text is not None and not isinstance(text, str):
        raise _wrong("'references[0].text' must be a string.", _BOTH)
    if _AUDIO in members:
        raise _wrong(f"'{_BOTH}' and '{_AUDIO}' are mutually exclusive.", _BOTH)
    if text is not None and members.get(_TEXT, text) != text:
        raise _wrong(f"'references[0].text' and '{_TEXT}' conflict.", _BOTH)
    return {**members, _AUDIO: audio, **({} if text is None else {_TEXT: text})}


def _only_reference(references: Any) -> Mapping[str, Any]:
    if isinstance(references, str):  # of a form, whose fields are all strings
        try:
            references = json_limits.loads(references)
        except (ValueError, RecursionError) as error:
            raise _wrong(f"Invalid '{_BOTH}': it is not valid JSON.", _BOTH) from error
    if not isinstance(references, list) or not references:
        message = f"'{_BOTH}' must be a non-empty array of {{audio_path, text}} objects."
        raise _wrong(message, _BOTH)
    if len(references) > 1:
        raise _wrong(f"'{_BOTH}' only supports a single reference.", _BOTH)
    if not isinstance(references[0], dict):
        raise _wrong("'references[0]' must be an object with 'audio_path' and 'text'.", _BOTH)
    return references[0]


def _wrong(message: str, param: str) -> InvalidRequestError:
    return InvalidRequestError(message, param=param)
