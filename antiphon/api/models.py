"""Which models are served."""

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request

from antiphon.api.adapters.elevenlabs_account import elevenlabs_models
from antiphon.api.adapters.errors import ELEVENLABS_KEY
from antiphon.api.deps import Server
from antiphon.api.state import ServerState
from antiphon.pipeline.speech.model import SpeechModel

router = APIRouter(tags=["models"])


@router.get("/v1/models", response_model=None)
async def list_models(request: Request, server: Server) -> dict[str, Any] | list[dict[str, Any]]:
    """List the served models; ElevenLabs' clients, known by their key's header, get its shape."""
    if ELEVENLABS_KEY in request.headers:
        return elevenlabs_models(server)
    models = [_described(model, server) for model in server.speech.models.values()]
    return {"object": "list", "data": models}


@router.get("/v1/models/{model_id:path}")
async def retrieve_model(model_id: str, server: Server) -> dict[str, Any]:
    """Describe one model; ids may contain slashes, and aliases are followed."""
    return _described(server.speech.model(model_id), server)


@router.get("/v1/audio/models")
async def list_audio_models(server: Server) -> dict[str, Any]:
    """List the served models in the shape that Open WebUI asks for."""
    return {"models": [{"id": name} for name in server.speech.models]}


def _described(model: SpeechModel, server: ServerState) -> dict[str, Any]:
    capabilities = model.capabilities
    return {
        "id": model.name,
        "object": "model",
        "created": server.created_s,
        "owned_by": "antiphon",
        "task": "text-to-speech",
        "sample_rate": capabilities.sample_rate_hz,
        **({"channels": capabilities.channels} if capabilities.channels > 1 else {}),
        "voices": [
            {
                "id": voice.id,
                "name": voice.name,
                "language": voice.language,
                "gender": voice.gender,
            }
            for voice in capabilities.voices
        ],
        "languages": list(capabilities.languages),
        "instructions": capabilities.instructions,
    }
