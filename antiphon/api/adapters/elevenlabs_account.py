"""Account routes of ElevenLabs' clients: models and remaining quota.

There are no accounts here: the answers give the server's limits for all.
"""

from typing import Any

from fastapi import APIRouter

from antiphon.api.state import Server, ServerState
from antiphon.pipeline.speech.model import SpeechModel

router = APIRouter(tags=["elevenlabs"])

_NO_LIMIT = 2**31 - 1
_USER = "antiphon"


@router.get("/v1/user/subscription")
async def subscription(server: Server) -> dict[str, Any]:
    """Return the limits: characters without end, and as many voices as the settings allow."""
    return await _subscription(server)


@router.get("/v1/user")
async def user(server: Server) -> dict[str, Any]:
    """Describe the user: all callers are the same one."""
    return {
        "user_id": _USER,
        "workspace_id": _USER,
        "first_name": None,
        "is_new_user": False,
        "can_use_delayed_payment_methods": False,
        "is_onboarding_completed": True,
        "is_onboarding_checklist_completed": True,
        "created_at": server.created_s,
        "seat_type": "workspace_member",
        "subscription": await _subscription(server),
    }


def elevenlabs_models(server: ServerState) -> list[dict[str, Any]]:
    """Describe the served models as ElevenLabs does, for ``GET /v1/models``."""
    max_characters = server.settings.speech.max_input_characters
    return [_described(model, max_characters) for model in server.speech.models.values()]


def _described(model: SpeechModel, max_characters: int) -> dict[str, Any]:
    languages = model.capabilities.languages
    return {
        "model_id": model.name,
        "name": model.name,
        "description": model.family.title,
        "can_be_finetuned": False,
        "can_do_text_to_speech": True,
        "can_do_voice_conversion": False,
        "can_use_style": False,
        "can_use_speaker_boost": False,
        "serves_pro_voices": False,
        "token_cost_factor": 0.0,
        "requires_alpha_access": False,
        "max_characters_request_free_user": max_characters,
        "max_characters_request_subscribed_user": max_characters,
        "maximum_text_length_per_request": max_characters,
        "languages": [{"language_id": each, "name": each} for each in languages],
    }


async def _subscription(server: ServerState) -> dict[str, Any]:
    can_clone = bool(server.speech.cloning_models)
    uploaded = await server.uploaded.listed()
    return {
        "tier": "free",
        "status": "active",
        "character_count": 0,
        "character_limit": _NO_LIMIT,
        "max_credit_limit_extension": 0,
        "can_extend_character_limit": False,
        "allowed_to_extend_character_limit": False,
        "voice_slots_used": len(uploaded),
        "voice_limit": server.settings.data.max_voices,
        "voice_add_edit_counter": 0,
        "professional_voice_slots_used": 0,
        "professional_voice_slots_used_in_workspace": 0,
        "professional_voice_limit": 0,
        "can_extend_voice_limit": False,
        "can_use_instant_voice_cloning": can_clone,
        "can_use_professional_voice_cloning": False,
        "current_overage": {"amount": "0", "currency": "usd"},
        "open_invoices": [],
        "has_open_invoices": False,
    }
