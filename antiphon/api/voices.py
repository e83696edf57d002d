"""Which voices can be asked for, in one body that every known client can read."""

from typing import Any

from fastapi import APIRouter

from antiphon.api.deps import Server
from antiphon.api.state import ServerState
from antiphon.pipeline.runtime import LoadedModel
from antiphon.types import Voice

router = APIRouter(tags=["voices"])


@router.get("/v1/audio/voices")
async def list_voices(
    server: Server, model: str | None = None, legacy: bool = False
) -> dict[str, Any]:
    """List a model's voices: ``data`` for OpenAI's readers, ``voices`` for those of Open WebUI.

    ``legacy`` gives plain names instead, for older clients.
    """
    loaded = server.speech.model(model)
    voices = loaded.capabilities.voices
    if legacy:
        return {"voices": [voice.id for voice in voices]}
    return {
        "object": "list",
        "has_more": False,
        "data": [_described(voice, loaded, server) for voice in voices],
        "voices": [{"id": voice.id, "name": voice.name} for voice in voices],
    }


@router.get("/v1/audio/speech/voices")
async def list_speech_voices(server: Server, model_id: str | None = None) -> list[dict[str, str]]:
    """List a model's voices in the shape of speaches."""
    loaded = server.speech.model(model_id)
    return [{"model_id": loaded.name, "voice_id": voice.id} for voice in loaded.capabilities.voices]


def _described(voice: Voice, model: LoadedModel, server: ServerState) -> dict[str, Any]:
    return {
        "id": voice.id,
        "object": "audio.voice",
        "name": voice.name,
        "type": voice.kind,
        "created_at": server.created_s,
        "language": voice.language,
        "gender": voice.gender,
        "model": model.name,
    }
