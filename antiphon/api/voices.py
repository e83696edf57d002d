"""List of voices in one body for all known clients, and uploads of voices.

An uploaded voice is prepared before the answer, so that status 200 means that it can speak.
"""

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request

from antiphon.api.bodies import Fields, JsonRoute
from antiphon.api.schemas.error import ErrorBody
from antiphon.api.schemas.voices import new_voice, openai_voice, uploaded_voice
from antiphon.api.state import Server, ServerState
from antiphon.contracts.types import Voice
from antiphon.errors import InvalidRequestError, invalid, listed
from antiphon.pipeline.speech.model import SpeechModel
from antiphon.voices.names import MAX_NAME_CHARACTERS
from antiphon.voices.store import NewVoice, StoredVoice

router = APIRouter(tags=["voices"], route_class=JsonRoute)

_FILE = {"type": "string", "format": "binary"}
_STRING = {"type": "string"}
_ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"model": ErrorBody, "description": "A field is wrong, or the model clones no voices."},
    507: {"model": ErrorBody, "description": "The data folder is full."},
    "default": {"model": ErrorBody, "description": "Any other error."},
}
_FORM = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {**_STRING, "minLength": 1, "maxLength": MAX_NAME_CHARACTERS},
        "audio_sample": {**_FILE, "description": "A recording of the voice, 1 to 30 s."},
        "speaker_embedding": {**_STRING, "description": "Instead: a JSON list of numbers."},
        "ref_text": {**_STRING, "description": "Transcript of the recording."},
        "consent": {**_STRING, "description": "The id of a consent, or any text."},
        "speaker_description": _STRING,
        "model": {**_STRING, "description": "That reads it; default: the first that clones."},
    },
}
_AS_FORM = {"requestBody": {"content": {"multipart/form-data": {"schema": _FORM}}}}


@router.get("/v1/audio/voices")
async def list_voices(
    request: Request, server: Server, model: str | None = None, legacy: bool = False
) -> dict[str, Any]:
    """List a model's voices: ``data`` for OpenAI's readers, ``voices`` for those of Open WebUI.

    Voices that were uploaded are among them if the model can speak with them; without ``model``,
    the first model that can speaks them. They are described as vLLM-Omni does in
    ``uploaded_voices`` for requests with a key. ``legacy`` gives plain names instead, for older
    clients.
    """
    loaded = server.speech.model(model)
    own = loaded.capabilities.voices
    uploaded = await server.uploaded.listed()
    cloning = loaded if loaded.capabilities.cloning else None
    if cloning is None and model is None:
        cloning = next(iter(server.speech.cloning_models), None)
    spoken = uploaded if cloning else []
    if legacy:
        return {"voices": [*(voice.id for voice in own), *(voice.name for voice in spoken)]}
    listed = [*own, *(voice.as_voice() for voice in spoken)]
    body = {
        "object": "list",
        "has_more": False,
        "data": [
            *(_described(voice, loaded, server) for voice in own),
            *({**openai_voice(voice), "model": cloning.name} for voice in spoken if cloning),
        ],
        "voices": [{"id": voice.id, "name": voice.name} for voice in listed],
    }
    if server.guards.keys.admits(request.headers):
        body["uploaded_voices"] = [uploaded_voice(voice) for voice in uploaded]
    return body


@router.post("/v1/audio/voices", responses=_ERRORS, openapi_extra=_AS_FORM)
async def create_voice(
    request: Request, server: Server, model: str | None = None
) -> dict[str, Any]:
    """Keep a voice: a recording with a name, or a speaker embedding.

    ``model``, in the form or the query, reads the recording; default: the first that clones voices.
    """
    fields = await Fields.of(request)
    voice = new_voice(fields)
    name = fields.text("model") or model
    return _kept(await add_voice(voice, voice.kind, server, name))


@router.get("/v1/audio/voices/{voice_id}", responses=_ERRORS)
async def retrieve_voice(voice_id: str, server: Server, model: str | None = None) -> dict[str, Any]:
    """Describe one voice, by its id or name; without ``model``, of any served model."""
    default = server.speech.model(model)
    for each in [default, *(server.speech.models.values() if model is None else ())]:
        if (own := each.own_voice(voice_id, {})) is not None:
            return _described(own, each, server)
    return _kept(await server.uploaded.workers.run(server.uploaded.voices.get, voice_id))


@router.delete("/v1/audio/voices/{voice_id}", responses=_ERRORS)
async def delete_voice(voice_id: str, server: Server) -> dict[str, Any]:
    """Forget a voice that was uploaded, by its id or name."""
    voice = await server.uploaded.delete(voice_id)
    return {
        "id": voice.id,
        "object": "audio.voice.deleted",
        "deleted": True,
        "success": True,
        "message": f"Voice '{voice.name}' deleted successfully",
    }


@router.get("/v1/audio/speech/voices")
async def list_speech_voices(server: Server, model_id: str | None = None) -> list[dict[str, str]]:
    """List a model's voices in the shape of speaches."""
    loaded = server.speech.model(model_id)
    names = [voice.id for voice in loaded.capabilities.voices]
    if loaded.capabilities.cloning:
        uploaded = await server.uploaded.listed()
        names += [voice.name for voice in uploaded]
    return [{"model_id": loaded.name, "voice_id": name} for name in names]


def _kept(voice: StoredVoice) -> dict[str, Any]:
    described = uploaded_voice(voice)
    return {**described, **openai_voice(voice), "success": True, "voice": described}


def _cloning_model(name: str | None, server: ServerState) -> SpeechModel:
    """Return the model of a name, or the first that clones; without one, the default model."""
    cloning = server.speech.cloning_models
    model = server.speech.model(name)
    if model.capabilities.cloning:
        return model
    if name is None or not cloning:
        return cloning[0] if cloning else model
    raise invalid(
        "model",
        f"'{model.name}' clones no voices. Models that do: {listed(each.name for each in cloning)}",
        code="voice_not_supported",
    )


def _described(voice: Voice, model: SpeechModel, server: ServerState) -> dict[str, Any]:
    return {
        "id": voice.id,
        "object": "audio.voice",
        "name": voice.name,
        "type": voice.kind,
        "created_at": server.created_s,
        "language": voice.language,
        "gender": voice.gender,
        "model": model.name,
        **({} if voice.description is None else {"description": voice.description}),
    }


async def add_voice(
    voice: NewVoice, field: str, server: ServerState, model_name: str | None = None
) -> StoredVoice:
    """Keep a voice that a model can speak with; raises InvalidRequestError.

    Args:
        field: form field that errors of the recording name.
        model_name: name of the model that reads the recording; ``None``: the first that clones.
    """
    model = _cloning_model(model_name, server)
    try:
        return await server.uploaded.add(voice, model, server.settings.speech.all_voice_aliases)
    except InvalidRequestError as error:
        if error.param != "ref_audio":
            raise
        raise InvalidRequestError(error.message, param=field, code=error.code) from error
