"""Stores of uploaded voices for ``antiphon voices``: a data folder, or a server's API."""

import secrets
from pathlib import Path
from typing import Any
from urllib.parse import quote

from antiphon.api.bodies import Fields, Upload
from antiphon.api.schemas.voices import new_voice, uploaded_voice
from antiphon.audio.recording import read_recording
from antiphon.audio.sound_check import check_sound
from antiphon.cli.remote import RemoteServer, upload_content
from antiphon.config import Settings
from antiphon.errors import AntiphonError, InvalidRequestError
from antiphon.pipeline.speech.model import DEFAULT_VOICE
from antiphon.storage.blobs import BlobStore
from antiphon.storage.voice_database import VoiceDatabase
from antiphon.voices.cache import PreparedCache
from antiphon.voices.consents import ConsentStore
from antiphon.voices.store import VoiceStore

_ANY_RATE_HZ = 16_000
_PATH = "/v1/audio/voices"


class FolderBackend:
    """Voices of a data folder, as the API shows them; a server may use it at the same time."""

    def __init__(self, settings: Settings) -> None:
        data = settings.data
        blobs = None if data.blobs_url is None else BlobStore(data.blobs_url)
        self._database = VoiceDatabase(data.folder, blobs, min_free_bytes=data.min_free_mib * 2**20)
        self._settings = settings
        self._store = VoiceStore(self._database, data.max_voices)
        self._consents = ConsentStore(self._database, data.max_voices)
        self._prepared = PreparedCache(data.folder / "prepared")

    def voices(self) -> list[dict[str, Any]]:
        return [uploaded_voice(voice) for voice in self._store.all()]

    def add(self, recording: Path, fields: dict[str, str]) -> dict[str, Any]:
        """Add a voice; ``fields`` are those of the API's form."""
        content = upload_content(recording)
        limits = self._settings.references
        if len(content) > limits.max_bytes:
            raise InvalidRequestError(f"{recording} has more than {limits.max_bytes} bytes.")
        samples = read_recording(
            content,
            sample_rate_hz=_ANY_RATE_HZ,
            max_duration_s=limits.max_duration_s,
            min_duration_s=limits.min_duration_s,
        )
        check_sound(samples, _ANY_RATE_HZ, limits.min_duration_s)
        if (consent := fields.get("consent")) is not None:
            self._consents.check(consent)
        voice = new_voice(Fields({**fields, "audio_sample": Upload(content)}))
        reserved = {DEFAULT_VOICE, *self._settings.speech.voice_aliases}
        return uploaded_voice(self._store.add(voice, reserved))

    def delete(self, name_or_id: str) -> str:
        voice = self._store.delete(name_or_id)
        self._prepared.keep_only({each.content_hash for each in self._store.all()})
        return voice.name

    def close(self) -> None:
        """Let go of the folder."""
        self._database.close()


class ServerBackend:
    def __init__(self, url: str, api_key: str | None) -> None:
        self._answer = RemoteServer(url, api_key).answer

    def voices(self) -> list[dict[str, Any]]:
        body = self._answer("GET", _PATH)
        if "uploaded_voices" not in body:
            raise AntiphonError("The server lists its voices only with a key: --api-key.")
        found: list[dict[str, Any]] = body["uploaded_voices"]
        return found

    def add(self, recording: Path, fields: dict[str, str]) -> dict[str, Any]:
        boundary = secrets.token_hex(16)
        parts = [(f'name="{name}"', text.encode()) for name, text in fields.items()]
        parts.append(('name="audio_sample"; filename="recording"', upload_content(recording)))
        form = b"".join(
            f"--{boundary}\r\nContent-Disposition: form-data; {head}\r\n\r\n".encode()
            + content
            + b"\r\n"
            for head, content in parts
        )
        content_type = f"multipart/form-data; boundary={boundary}"
        return self._answer("POST", _PATH, form + f"--{boundary}--\r\n".encode(), content_type)

    def delete(self, name_or_id: str) -> str:
        path = f"{_PATH}/{quote(name_or_id, safe='')}"
        name: str = self._answer("GET", path)["name"]
        self._answer("DELETE", path)
        return name
