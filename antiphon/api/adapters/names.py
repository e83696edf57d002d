"""Names that other vendors' clients send by default, and what they mean here."""

import re

from antiphon.api.state import ServerState
from antiphon.contracts.languages import resolve_language
from antiphon.errors import UnknownModelError

_VENDOR_VOICES = re.compile(r"aura-.*|[A-Za-z0-9]{20}")
"""Deepgram's models, which are voices, and the ids of ElevenLabs."""
_VENDOR_MODELS = re.compile(r"eleven_.*")


async def known_voice(name: str | None, server: ServerState) -> str | None:
    """Return a voice of ours; one of another vendor's means the default, unless it is an alias.

    A name that is neither comes back as it is: the request fails with the proper error.
    """
    if name is None or not _VENDOR_VOICES.fullmatch(name):
        return name
    model = server.speech.model(None)
    is_own = model.own_voice(name, server.settings.speech.all_voice_aliases) is not None
    is_uploaded = await server.uploaded.find(name, {}) is not None
    return name if is_own or is_uploaded else None


def known_model(name: str | None, server: ServerState) -> str | None:
    """Return a model of ours; that of another vendor is the default; raises UnknownModelError."""
    try:
        server.speech.model(name)
    except UnknownModelError:
        if name is not None and _VENDOR_MODELS.fullmatch(name):
            return None
        raise
    return name


def known_language(code: str | None, model: str | None, server: ServerState) -> str | None:
    """Return a language for the model; ``None`` where it decides by the text itself.

    Raises:
        InvalidRequestError: the model's language can be chosen, but it lacks this one.
    """
    languages = server.speech.model(model).capabilities.languages
    return resolve_language(code, languages) if languages else None
