"""/v1/models: the served models."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request

from antiphon.api.adapters.elevenlabs_account import elevenlabs_models
from antiphon.api.adapters.errors import ELEVENLABS_KEY
from antiphon.api.state import Server, ServerState
from antiphon.contracts.chat import CHAT_VOICE, AnswerVoiceCapabilities, ChatCapabilities
from antiphon.contracts.pictures import ImageCapabilities, PictureCapabilities, VideoCapabilities
from antiphon.contracts.prompt import SupportsVoiceNames
from antiphon.pipeline.chat.omni_talker import ChatVoiceModel
from antiphon.pipeline.chat.service import CHAT, ChatModel
from antiphon.pipeline.model_directory import DEFAULT_MODEL, ModelDirectory
from antiphon.pipeline.pictures.service import IMAGE, VIDEO, ImageModel, VideoModel
from antiphon.pipeline.runtime import LoadedTask
from antiphon.pipeline.speech.model import SPEECH, SpeechModel

router = APIRouter(tags=["models"])

_TASKS = {
    SPEECH: "text-to-speech",
    CHAT: "text-generation",
    CHAT_VOICE: "any-to-any",
    IMAGE: "text-to-image",
    VIDEO: "text-to-video",
}
"""What the tasks are called on model hubs."""


@router.get("/v1/models", response_model=None)
async def list_models(request: Request, server: Server) -> dict[str, Any] | list[dict[str, Any]]:
    """List the served models; ElevenLabs' clients, known by their key's header, get its shape."""
    if ELEVENLABS_KEY in request.headers:
        return elevenlabs_models(server)
    models = [_described(tasks, server) for tasks in server.models.by_name().values()]
    return {"object": "list", "data": models}


@router.get("/v1/models/{model_id:path}")
async def retrieve_model(model_id: str, server: Server) -> dict[str, Any]:
    """Describe one model; ids may contain slashes, and aliases are followed."""
    models, settings = server.models, server.settings
    aliases = dict(settings.speech.model_aliases)
    for served, section in (
        (models.chats, settings.chat),
        (models.images, settings.images),
        (models.videos, settings.videos),
    ):
        if (default := next(iter(served), None)) is not None:
            aliases |= {
                alias: default if name == DEFAULT_MODEL else name
                for alias, name in section.model_aliases.items()
            }
    tasks = models.by_name()
    first = {name: each[0] for name, each in tasks.items()}
    found = ModelDirectory(first, aliases, "is served").model(model_id)
    return _described(tasks[found.name], server)


@router.get("/v1/audio/models")
async def list_audio_models(server: Server) -> dict[str, Any]:
    """List the served models in the shape that Open WebUI asks for."""
    return {"models": [{"id": name} for name in server.speech.models]}


def _described(tasks: Sequence[LoadedTask], server: ServerState) -> dict[str, Any]:
    described: dict[str, Any] = {
        "id": tasks[0].name,
        "object": "model",
        "created": server.created_s,
        "owned_by": "antiphon",
        "task": _task_names(tasks[0])[0],
        "tasks": [name for each in tasks for name in _task_names(each)],
    }
    for each in tasks:
        match each:
            case SpeechModel():
                described |= _of_speech(each)
            case ChatModel():
                described["chat"] = _of_chats(each.capabilities)
            case ChatVoiceModel():
                described["chat_voice"] = _of_chat_voices(each.capabilities)
            case ImageModel():
                described["image"] = _of_images(each.capabilities)
            case VideoModel():
                described["video"] = _of_videos(each.capabilities)
    return described


def _task_names(task: LoadedTask) -> list[str]:
    """Return what a task is called, and what it is called with a picture to begin with."""
    name = _TASKS[task.task_name]
    match task:
        case ImageModel():
            takes, needs = bool(task.capabilities.max_images), task.capabilities.needs_image
        case VideoModel():
            takes, needs = task.capabilities.takes_image, task.capabilities.needs_image
        case _:
            return [name]
    of_pictures = [name.replace("text-", "image-", 1)] if takes or needs else []
    return of_pictures if needs else [name, *of_pictures]


def _of_speech(model: SpeechModel) -> dict[str, Any]:
    capabilities = model.capabilities
    return {
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
        "cloning": capabilities.cloning,
        "voice_design": "instructions" in capabilities.voice_fields,
        "voice_mixing": isinstance(model.prompter, SupportsVoiceNames),
    }


def _of_chats(capabilities: ChatCapabilities) -> dict[str, Any]:
    sampling = asdict(capabilities.sampling)
    return {
        "max_model_len": capabilities.max_positions,
        "vocab_size": capabilities.vocab_size,
        "logprobs": capabilities.logprobs,
        "reasoning": capabilities.thinks,
        "sampling": {name: value for name, value in sampling.items() if name != "logit_bias"},
    }


def _of_chat_voices(capabilities: AnswerVoiceCapabilities) -> dict[str, Any]:
    return {
        "sample_rate": capabilities.sample_rate_hz,
        "voices": [voice.id for voice in capabilities.voices],
        "instructions": capabilities.instructions,
    }


def _of_pictures(capabilities: PictureCapabilities) -> dict[str, Any]:
    width, height = capabilities.default_size
    parameters = asdict(capabilities.parameters)
    return {
        "default_size": f"{width}x{height}",
        "size_multiple": capabilities.size_multiple,
        "parameters": {name: value for name, value in parameters.items() if value is not None},
    }


def _of_images(capabilities: ImageCapabilities) -> dict[str, Any]:
    return {
        **_of_pictures(capabilities),
        "max_images": capabilities.max_images,
        "needs_image": capabilities.needs_image,
        "masks": capabilities.masks,
    }


def _of_videos(capabilities: VideoCapabilities) -> dict[str, Any]:
    return {
        **_of_pictures(capabilities),
        "default_num_frames": capabilities.default_num_frames,
        "frame_multiple": capabilities.frame_multiple,
        "takes_image": capabilities.takes_image,
        "needs_image": capabilities.needs_image,
    }
