"""The voices that users have uploaded: what is known of each in SQLite, its recording in a blob."""

import hashlib
import sqlite3
import time
from collections.abc import Collection
from dataclasses import asdict, dataclass, fields, replace
from typing import Literal

from antiphon.errors import InvalidRequestError, UnknownVoiceError
from antiphon.types import Voice
from antiphon.voices.names import check_not_reserved, checked_name, name_key, new_id
from antiphon.voices.vault import Vault

_MAX_NAMES_TOLD = 20
_EMBEDDING_ITEM_BYTES = 4

VoiceKind = Literal["audio_sample", "speaker_embedding"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewVoice:
    """A voice that is to be kept.

    Attributes:
        name: what users will call it.
        content: the file of a recording; or a speaker embedding, as float32, little-endian.
        kind: which of the two it is.
        media_type: of the content.
        consent: what the speaker has agreed to, or the id of a consent.
        ref_text: what is said in the recording.
        description: for people.
    """

    name: str
    content: bytes
    kind: VoiceKind = "audio_sample"
    media_type: str = "application/octet-stream"
    consent: str | None = None
    ref_text: str | None = None
    description: str | None = None

    @property
    def content_hash(self) -> str:
        """A hash of all that can be heard."""
        digest = hashlib.sha256(f"{self.kind} {self.ref_text!r} ".encode())
        digest.update(self.content)
        return digest.hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredVoice:
    """What is known of a voice that is kept; see `NewVoice`."""

    id: str
    name: str
    created_s: int
    kind: VoiceKind
    media_type: str
    num_bytes: int
    content_hash: str
    consent: str | None
    ref_text: str | None
    description: str | None

    @property
    def embedding_size(self) -> int | None:
        is_embedding = self.kind == "speaker_embedding"
        return self.num_bytes // _EMBEDDING_ITEM_BYTES if is_embedding else None

    def as_voice(self) -> Voice:
        return Voice(id=self.id, name=self.name, description=self.description, kind="uploaded")


_COLUMNS = ", ".join(field.name for field in fields(StoredVoice))
_FIND = f"SELECT {_COLUMNS} FROM voices WHERE id = ? OR name_key = ? ORDER BY id = ? DESC LIMIT 1"
_COUNT = "SELECT count(*) FROM voices"
_OTHERS = "SELECT id FROM voices WHERE name_key = ? AND id != ?"
_EDIT = "UPDATE voices SET name = ?, name_key = ?, description = ? WHERE id = ?"


class VoiceStore:
    """Voices by name and id; blocks, so it belongs in worker threads."""

    def __init__(self, vault: Vault, max_voices: int) -> None:
        """Keep up to ``max_voices`` in a vault."""
        self._vault = vault
        self._max_voices = max_voices

    def all(self) -> list[StoredVoice]:
        """Return all voices, the oldest first."""
        rows = self._vault.query(f"SELECT {_COLUMNS} FROM voices ORDER BY id")
        return [StoredVoice(**dict(row)) for row in rows]

    def find(self, name_or_id: str) -> StoredVoice | None:
        """Return the voice that has this id, or else this name, in any case."""
        try:
            rows = self._vault.query(_FIND, name_or_id, name_key(name_or_id), name_or_id)
        except UnicodeEncodeError:
            return None  # half a character is no name
        return StoredVoice(**dict(rows[0])) if rows else None

    def get(self, name_or_id: str) -> StoredVoice:
        """Return the voice that has this id, or else this name.

        Raises:
            UnknownVoiceError: there is none.
        """
        if (found := self.find(name_or_id)) is not None:
            return found
        names = [voice.name for voice in self.all()]
        more = ["..."] if len(names) > _MAX_NAMES_TOLD else []
        raise UnknownVoiceError(name_or_id, [*names[:_MAX_NAMES_TOLD], *more] or ["none"])

    def content(self, voice: StoredVoice) -> bytes:
        """Return the recording's file, or the embedding.

        Raises:
            StorageError: it cannot be read; or the voice has just been deleted.
        """
        return self._vault.content(voice.id)

    def check(self, voice: NewVoice, reserved: Collection[str] = ()) -> StoredVoice | None:
        """Find out whether a voice could be added, before any work goes into it.

        Returns:
            The voice itself, if it is there already.

        Raises:
            InvalidRequestError: it could not.
        """
        name = checked_name(voice.name)
        check_not_reserved(name, reserved)
        rows = self._vault.query(_FIND, "", name_key(name), "")
        if not rows:
            self._check_room(self._vault.query(_COUNT))
            return None
        return _same(StoredVoice(**dict(rows[0])), voice)

    def add(self, voice: NewVoice, reserved: Collection[str] = ()) -> StoredVoice:
        """Keep a voice; what is returned will be there after a power cut.

        The same voice once more, under the same name, is the one that is there: whoever has lost
        the answer may ask again.

        Raises:
            InvalidRequestError: the name will not do or is taken, or there are too many voices.
            StorageError: it could not be written, and is not there.
        """
        name = checked_name(voice.name)
        check_not_reserved(name, reserved)
        stored = StoredVoice(
            id=new_id("voice"),
            name=name,
            created_s=int(time.time()),
            kind=voice.kind,
            media_type=voice.media_type,
            num_bytes=len(voice.content),
            content_hash=voice.content_hash,
            consent=voice.consent,
            ref_text=voice.ref_text,
            description=voice.description,
        )
        with self._vault.change() as change:
            if rows := change.execute(_FIND, "", name_key(name), ""):
                return _same(StoredVoice(**dict(rows[0])), voice)
            self._check_room(change.execute(_COUNT))
            change.insert("voices", {**asdict(stored), "name_key": name_key(name)}, voice.content)
        return stored

    def edit(
        self,
        name_or_id: str,
        *,
        name: str | None = None,
        description: str | None = None,
        reserved: Collection[str] = (),
    ) -> StoredVoice:
        """Change what a voice is called, or its description; ``None`` leaves either as it is.

        Raises:
            UnknownVoiceError: there is none.
            InvalidRequestError: the name will not do, or another voice has it.
            StorageError: the folder cannot be written; nothing has changed.
        """
        voice = self.get(name_or_id)
        if name is not None:
            voice = replace(voice, name=checked_name(name))
            check_not_reserved(voice.name, reserved)
        if description is not None:
            voice = replace(voice, description=description)
        key = name_key(voice.name)
        with self._vault.change() as change:
            if change.execute(_OTHERS, key, voice.id):
                raise _taken(voice.name)
            change.execute(_EDIT, voice.name, key, voice.description, voice.id)
        return voice

    def delete(self, name_or_id: str) -> StoredVoice:
        """Forget a voice, and return what it was.

        Raises:
            UnknownVoiceError: there is none.
            StorageError: the folder cannot be written; the voice is still there.
        """
        voice = self.get(name_or_id)
        with self._vault.change() as change:
            if not change.execute("SELECT id FROM voices WHERE id = ?", voice.id):
                raise UnknownVoiceError(name_or_id, ["none"])  # somebody else was quicker
            change.delete("voices", voice.id)
        return voice

    def _check_room(self, counted: list[sqlite3.Row]) -> None:
        num_voices = counted[0][0] if counted else 0
        if num_voices >= self._max_voices:
            raise InvalidRequestError(
                f"There are {num_voices} uploaded voices; at most {self._max_voices} are allowed"
                " (data.max_voices). Delete one first.",
                code="too_many_voices",
            )


def _same(stored: StoredVoice, voice: NewVoice) -> StoredVoice:
    """Return the voice that has the name already, if it is the same.

    Raises:
        InvalidRequestError: it is another.
    """
    facts = (stored.content_hash, stored.consent, stored.description)
    if facts != (voice.content_hash, voice.consent, voice.description):
        raise _taken(stored.name)
    return stored


def _taken(name: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"Invalid 'name': there is a voice '{name}' already. Delete it first, or choose another"
        " name.",
        param="name",
        code="voice_exists",
    )
