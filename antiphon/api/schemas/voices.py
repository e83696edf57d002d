"""Voices and consents on the wire: one body for OpenAI's readers and for those of vLLM-Omni."""

import json
import math
from typing import Any

import numpy as np

from antiphon.api.bodies import Fields
from antiphon.api.schemas.field_rules import check_known
from antiphon.errors import InvalidRequestError, invalid, missing
from antiphon.voices.consents import StoredConsent
from antiphon.voices.names import checked_text
from antiphon.voices.store import NewVoice, StoredVoice

MAX_EMBEDDING_SIZE = 4096

_MAX_CHARACTERS = {"consent": 1000, "ref_text": 4000, "speaker_description": 1000}
_VOICE_FIELDS = (*("name", "type", "model", "audio_sample", "speaker_embedding", *_MAX_CHARACTERS),)
_MAX_EMBEDDING_CHARACTERS = 40 * MAX_EMBEDDING_SIZE
_MAX_FLOAT32 = float(np.finfo(np.float32).max)
_EMBEDDING_TYPE = "application/octet-stream"


def new_voice(fields: Fields) -> NewVoice:
    """Read a voice that is to be kept; raises InvalidRequestError."""
    if fields.text("type") not in (None, "audio_sample"):
        raise invalid(
            "type", "voices are made of recordings here, not of prompts. It must be 'audio_sample'"
        )
    check_known(fields.values, _VOICE_FIELDS)
    recording = fields.recording("audio_sample")
    embedding = fields.values.get("speaker_embedding")
    if recording is not None and embedding is not None:
        raise InvalidRequestError(
            "'audio_sample' and 'speaker_embedding' are mutually exclusive.",
            param="speaker_embedding",
        )
    texts = {name: _text(fields, name) for name in _MAX_CHARACTERS}
    name = fields.required_text("name")
    if recording is None and embedding is None:
        raise missing("audio_sample")
    content, media_type = recording or (_embedding(fields), _EMBEDDING_TYPE)
    return NewVoice(
        name=name,
        content=content,
        kind="audio_sample" if recording else "speaker_embedding",
        media_type=media_type,
        consent=texts["consent"],
        ref_text=texts["ref_text"],
        description=texts["speaker_description"],
    )


def openai_voice(voice: StoredVoice) -> dict[str, Any]:
    """Describe a voice as OpenAI does."""
    return {
        "id": voice.id,
        "object": "audio.voice",
        "name": voice.name,
        "type": "audio_sample",  # OpenAI knows no embeddings
        "created_at": voice.created_s,
    }


def uploaded_voice(voice: StoredVoice) -> dict[str, Any]:
    """Describe a voice as vLLM-Omni does, with its id."""
    is_embedding = voice.kind == "speaker_embedding"
    known = {
        "ref_text": voice.ref_text,
        "speaker_description": voice.description,
        "embedding_dim": voice.embedding_size,
        "owner": voice.owner,
    }
    return {
        "id": voice.id,
        "name": voice.name,
        "consent": voice.consent or "",
        "created_at": voice.created_s,
        "file_size": voice.num_bytes,
        "mime_type": voice.media_type,
        "embedding_source": "direct" if is_embedding else "audio",
        **{name: value for name, value in known.items() if value is not None},
    }


def consent_body(consent: StoredConsent) -> dict[str, Any]:
    """Describe a consent as OpenAI does."""
    return {
        "id": consent.id,
        "object": "audio.voice_consent",
        "created_at": consent.created_s,
        "name": consent.name,
        "language": consent.language,
    }


def _text(fields: Fields, name: str) -> str | None:
    text = fields.text(name)
    return None if text is None else checked_text(text, name, _MAX_CHARACTERS[name]) or None


def _embedding(fields: Fields) -> bytes:
    """Return the numbers as float32, little-endian; forms bring them as JSON."""
    value = fields.values["speaker_embedding"]
    if not isinstance(value, list):
        text = fields.text("speaker_embedding") or ""
        try:
            value = json.loads(text) if len(text) <= _MAX_EMBEDDING_CHARACTERS else None
        except (ValueError, RecursionError):
            value = None
    is_list = isinstance(value, list) and 1 <= len(value) <= MAX_EMBEDDING_SIZE
    if not is_list or not all(type(each) in (int, float) and _fits(each) for each in value):
        raise invalid(
            "speaker_embedding",
            f"it must be a non-empty list of at most {MAX_EMBEDDING_SIZE} finite numbers, as JSON",
        )
    return np.array(value, "<f4").tobytes()


def _fits(number: float) -> bool:
    return abs(number) <= _MAX_FLOAT32 and not math.isnan(number)
