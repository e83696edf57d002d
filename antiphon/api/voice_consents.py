"""Consents to voices, as OpenAI's API has them: recordings with a label and a language."""

from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.requests import Request

from antiphon.api.bodies import Fields, JsonRoute
from antiphon.api.schemas.error import ErrorBody
from antiphon.api.schemas.field_rules import check_known
from antiphon.api.schemas.voices import consent_body
from antiphon.api.state import Server
from antiphon.errors import InvalidRequestError, missing

router = APIRouter(prefix="/v1/audio/voice_consents", tags=["voices"], route_class=JsonRoute)

_ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"model": ErrorBody, "description": "A field is wrong; 'param' names it."},
    404: {"model": ErrorBody, "description": "There is no such consent."},
    "default": {"model": ErrorBody, "description": "Any other error."},
}
_FORM = {
    "type": "object",
    "required": ["name", "language", "recording"],
    "properties": {
        "name": {"type": "string"},
        "language": {"type": "string", "description": "A BCP 47 tag, as en-US."},
        "recording": {"type": "string", "format": "binary"},
    },
}
_AS_FORM = {"requestBody": {"content": {"multipart/form-data": {"schema": _FORM}}}}

Limit = Annotated[int, Query(ge=1, le=100)]


@router.post("", responses=_ERRORS, openapi_extra=_AS_FORM)
async def create_consent(request: Request, server: Server) -> dict[str, Any]:
    """Keep a consent."""
    fields = await Fields.of(request)
    check_known(fields.values, ("name", "language", "recording"))
    name, language = fields.required_text("name"), fields.required_text("language")
    recording = fields.recording("recording")
    if recording is None:
        raise missing("recording")
    content, media_type = recording
    uploaded = server.uploaded
    try:
        await uploaded.check_recording(content)
    except InvalidRequestError as error:
        raise InvalidRequestError(error.message, param="recording", code=error.code) from error
    consent = await uploaded.workers.run(uploaded.consents.add, name, language, content, media_type)
    return consent_body(consent)


@router.get("", responses=_ERRORS)
async def list_consents(
    server: Server, limit: Limit = 20, after: str | None = None
) -> dict[str, Any]:
    """List consents, the newest first; ``after`` is the last id of the page before."""
    uploaded = server.uploaded
    consents, has_more = await uploaded.workers.run(uploaded.consents.page, limit, after)
    return {
        "object": "list",
        "data": [consent_body(consent) for consent in consents],
        "first_id": consents[0].id if consents else None,
        "last_id": consents[-1].id if consents else None,
        "has_more": has_more,
    }


@router.get("/{consent_id}", responses=_ERRORS)
async def retrieve_consent(consent_id: str, server: Server) -> dict[str, Any]:
    """Describe one consent."""
    uploaded = server.uploaded
    return consent_body(await uploaded.workers.run(uploaded.consents.get, consent_id))


@router.post("/{consent_id}", responses=_ERRORS)
async def update_consent(consent_id: str, request: Request, server: Server) -> dict[str, Any]:
    """Change a consent's label."""
    name = (await Fields.of(request)).required_text("name")
    uploaded = server.uploaded
    return consent_body(await uploaded.workers.run(uploaded.consents.rename, consent_id, name))


@router.delete("/{consent_id}", responses=_ERRORS)
async def delete_consent(consent_id: str, server: Server) -> dict[str, Any]:
    """Forget a consent."""
    uploaded = server.uploaded
    await uploaded.workers.run(uploaded.consents.delete, consent_id)
    return {"id": consent_id, "object": "audio.voice_consent", "deleted": True}
