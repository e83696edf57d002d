"""ElevenLabs' voices: which there are, and adding one's own, for models that clone."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import Field
from starlette.requests import Request

from antiphon.api import voices
from antiphon.api.bodies import JsonRoute
from antiphon.api.schemas.elevenlabs_voices import new_voice, voice_edit
from antiphon.api.state import Server, ServerState
from antiphon.contracts.types import Voice
from antiphon.contracts.well_formed import StrictModel
from antiphon.errors import InvalidRequestError, UnknownVoiceError, invalid
from antiphon.voices.store import StoredVoice

router = APIRouter(tags=["elevenlabs"], route_class=JsonRoute)

SETTINGS = {
    "stability": 0.5,
    "similarity_boost": 0.75,
    "style": 0.0,
    "use_speaker_boost": True,
    "speed": 1.0,
}
"""What ElevenLabs has by default; of these, requests for speech may change the speed."""


class VoiceSearch(StrictModel):
    """Which voices are listed; what is not here is ignored: all voices satisfy it."""

    page_size: int = Field(10, ge=1, le=100)
    next_page_token: str | None = Field(None, description="Of the page before.")
    search: str | None = Field(None, description="A part of a name, a description or a label.")
    sort: Literal["name", "created_at_unix"] | None = None
    sort_direction: Literal["asc", "desc"] = "asc"
    voice_type: str | None = Field(
        None, description="default: the model's own; personal, non-default, saved: uploaded."
    )
    category: str | None = Field(None, description="premade or cloned.")
    voice_ids: list[str] | None = None
    include_total_count: bool = True


@router.get("/v1/voices")
async def list_voices(server: Server) -> dict[str, Any]:
    """List the default model's voices, and those that were uploaded if it can speak with them."""
    described = await _all(server)
    return {"voices": described, "has_more": False, "total_count": len(described)}


@router.get("/v2/voices")
async def search_voices(server: Server, query: Annotated[VoiceSearch, Query()]) -> dict[str, Any]:
    """List voices page by page."""
    found = [each for each in await _all(server) if _fits(each, query)]
    if query.sort is not None:
        key = query.sort
        found.sort(key=lambda each: str(each[key] or "").casefold())
        if key == "created_at_unix":
            found.sort(key=lambda each: each[key] or 0)
    if query.sort_direction == "desc":
        found.reverse()
    start = _start(found, query.next_page_token)
    page = found[start : start + query.page_size]
    has_more = start + len(page) < len(found)
    return {
        "voices": page,
        "has_more": has_more,
        "total_count": len(found),
        "next_page_token": page[-1]["voice_id"] if has_more else None,
    }


@router.get("/v1/voices/settings/default")
async def default_settings() -> dict[str, Any]:
    """Return the settings of every voice."""
    return SETTINGS


@router.get("/v1/voices/{voice_id}/settings")
async def voice_settings(voice_id: str, server: Server) -> dict[str, Any]:
    """Return the settings of a voice."""
    await _found(voice_id, server)
    return SETTINGS


@router.post("/v1/voices/{voice_id}/settings/edit")
async def edit_settings(voice_id: str, server: Server) -> dict[str, Any]:
    """Refuse to keep settings."""
    await _found(voice_id, server)
    raise InvalidRequestError(
        "Settings are not kept with a voice: send 'voice_settings' with the text instead.",
        param="voice_settings",
        code="not_supported",
    )


@router.post("/v1/voices/add")
async def add_voice(request: Request, server: Server) -> dict[str, Any]:
    """Keep a voice: a name and a recording."""
    stored = await voices.add_voice(await new_voice(request), "files", server)
    return {"voice_id": stored.id, "requires_verification": False}


@router.get("/v1/voices/{voice_id}")
async def get_voice(voice_id: str, server: Server) -> dict[str, Any]:
    """Describe one voice, by its id or name."""
    return await _found(voice_id, server)


@router.post("/v1/voices/{voice_id}/edit")
async def edit_voice(voice_id: str, request: Request, server: Server) -> dict[str, Any]:
    """Change the name or the description of a voice that was uploaded."""
    name, description = await voice_edit(request)
    await server.uploaded.edit(
        voice_id,
        name=name,
        description=description,
        model=server.speech.model(None),
        aliases=server.settings.speech.all_voice_aliases,
    )
    return {"status": "ok"}


@router.delete("/v1/voices/{voice_id}")
async def delete_voice(voice_id: str, server: Server) -> dict[str, Any]:
    """Forget a voice that was uploaded, by its id or name."""
    await server.uploaded.delete(voice_id)
    return {"status": "ok"}


async def _all(server: ServerState) -> list[dict[str, Any]]:
    capabilities = server.speech.model(None).capabilities
    described = [_described(voice) for voice in capabilities.voices]
    if server.speech.cloning_models:
        uploaded = await server.uploaded.listed()
        described += [_kept(voice) for voice in uploaded]
    return described


async def _found(voice_id: str, server: ServerState) -> dict[str, Any]:
    """Describe a voice of the model, or one that was uploaded; raises UnknownVoiceError."""
    own = server.speech.model(None).own_voice(voice_id, {})
    if own is not None:
        return _described(own)
    stored = await server.uploaded.workers.run(server.uploaded.voices.find, voice_id)
    if stored is None:
        raise UnknownVoiceError(voice_id, [each["voice_id"] for each in await _all(server)])
    return _kept(stored)


def _fits(voice: dict[str, Any], query: VoiceSearch) -> bool:
    texts = (voice["name"], voice["description"] or "", *voice["labels"].values())
    is_own = voice["category"] == "premade"
    wants_own = {"default": True, "personal": False, "non-default": False, "saved": False}
    return (
        (query.search or "").casefold() in "\n".join(texts).casefold()
        and wants_own.get(query.voice_type or "", is_own) == is_own
        and query.category in (None, voice["category"])
        and (not query.voice_ids or voice["voice_id"] in query.voice_ids)
    )


def _start(voices: Sequence[dict[str, Any]], token: str | None) -> int:
    """Return where the page begins after the one that a token ends; raises InvalidRequestError."""
    if not token:
        return 0
    for index, voice in enumerate(voices):
        if voice["voice_id"] == token:
            return index + 1
    raise invalid("next_page_token", "there is no such page any more. Begin again without it")


def _kept(voice: StoredVoice) -> dict[str, Any]:
    is_recording = voice.kind == "audio_sample"
    sample = {
        "sample_id": voice.id,
        "file_name": voice.name,
        "mime_type": voice.media_type,
        "size_bytes": voice.num_bytes,
        "hash": voice.content_hash,
    }
    return {
        **_described(voice.as_voice()),
        "samples": [sample] if is_recording else [],
        "is_owner": True,
        "created_at_unix": voice.created_s,
    }


def _described(voice: Voice) -> dict[str, Any]:
    labels = {"language": voice.language, "gender": voice.gender}
    return {
        "voice_id": voice.id,
        "name": voice.name,
        "samples": None,
        "category": "premade" if voice.kind == "builtin" else "cloned",
        "labels": {name: value for name, value in labels.items() if value is not None},
        "description": voice.description,
        "preview_url": None,
        "available_for_tiers": [],
        "settings": SETTINGS,
        "is_owner": False,
        "created_at_unix": None,
    }
