"""The voices that users have uploaded: what is known of each in SQLite, its recording in a blob."""

import hashlib
import sqlite3
import time
from collections.abc import Collection
from dataclasses import asdict, dataclass, fields, replace
from typing import Literal

from antiphon.contracts.types import Voice
from antiphon.errors import InvalidRequestError, UnknownVoiceError, invalid
from antiphon.storage.database import new_id
from antiphon.storage.errors import NotOwnerError
from antiphon.voices.names import check_not_reserved, checked_name, name_key
from antiphon.voices.owned_rows import OwnedRows

_MAX_NAMES_TOLD = 20
_EMBEDDING_ITEM_BYTES = 4

VoiceKind = Literal["audio_sample", "speaker_embedding"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewVoice:
    """A voice that is to be kept.

    Attributes:
        content: the file of a recording; or a speaker embedding, as float32, little-endian.
        consent: Statement of the speaker's consent, or the id of a consent.
        owner: Owner's id; ``None``: all callers may use the voice.
    """

    name: str
    content: bytes
    kind: VoiceKind = "audio_sample"
    media_type: str = "application/octet-stream"
    consent: str | None = None
    ref_text: str | None = None
    description: str | None = None
    owner: str | None = None

    @property
    def content_hash(self) -> str:
        """A hash of the content, its text and its owner: owners share no cache."""
        whose = "" if self.owner is None else f"{self.owner!r} "
        digest = hashlib.sha256(f"{whose}{self.kind} {self.ref_text!r} ".encode())
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
    owner: str | None = None

    @property
    def embedding_size(self) -> int | None:
        is_embedding = self.kind == "speaker_embedding"
        return self.num_bytes // _EMBEDDING_ITEM_BYTES if is_embedding else None

    def as_voice(self) -> Voice:
        return Voice(id=self.id, name=self.name, description=self.description, kind="uploaded")


_COLUMNS = ", ".join(field.name for field in fields(StoredVoice))
_LIST = f"SELECT {_COLUMNS} FROM voices WHERE ? OR owner IN ('', ?) ORDER BY id"
# Names are those of the caller, then those without an owner; an admin finds others' by id.
_FIND = f"""SELECT {_COLUMNS} FROM voices
    WHERE id = ? AND (? OR owner IN ('', ?)) OR name_key = ? AND owner IN ('', ?)
    ORDER BY id = ? DESC, owner DESC LIMIT 1"""
_SAME = f"SELECT {_COLUMNS} FROM voices WHERE name_key = ? AND owner = ?"
_OTHERS = "SELECT id FROM voices WHERE name_key = ? AND owner = ? AND id != ?"
_EDIT = "UPDATE voices SET name = ?, name_key = ?, description = ? WHERE id = ?"


class VoiceStore(OwnedRows):
    """Voices by name and id, as one caller sees them.

    A caller speaks with what is its own and with what has no owner, and deletes what is its own.
    """

    _table = "voices"
    _noun = "uploaded voices"

    def all(self) -> list[StoredVoice]:
        rows = self._database.query(_LIST, self._caller.is_admin, self._caller.owner or "")
        return [_stored(row) for row in rows]

    def find(self, name_or_id: str) -> StoredVoice | None:
        """Return the voice that has this id, or else this name, in any case."""
        is_admin, owner = self._caller.is_admin, self._caller.owner or ""
        key = name_key(name_or_id)
        try:
            rows = self._database.query(_FIND, name_or_id, is_admin, owner, key, owner, name_or_id)
        except UnicodeEncodeError:
            return None  # half a character is no name
        return _stored(rows[0]) if rows else None

    def get(self, name_or_id: str) -> StoredVoice:
        """Return the voice that has this id, or else this name; raises UnknownVoiceError."""
        if (found := self.find(name_or_id)) is not None:
            return found
        by_name = (None, self._caller.owner)
        names = [voice.name if voice.owner in by_name else voice.id for voice in self.all()]
        more = ["..."] if len(names) > _MAX_NAMES_TOLD else []
        raise UnknownVoiceError(name_or_id, [*names[:_MAX_NAMES_TOLD], *more] or ["none"])

    def content(self, voice: StoredVoice) -> bytes:
        """Return the recording's file, or the embedding.

        Raises:
            StorageError: it cannot be read; or the voice has just been deleted.
        """
        return self._database.content(voice.id)

    def check(self, voice: NewVoice, reserved: Collection[str] = ()) -> StoredVoice | None:
        """Check that a voice can be added, before any work is done; raises InvalidRequestError.

        Returns:
            The voice itself, if it is there already.
        """
        name = checked_name(voice.name)
        check_not_reserved(name, reserved)
        owner = voice.owner or ""
        rows = self._database.query(_SAME, name_key(name), owner)
        if not rows:
            self._check_limits(self._database.query(self._count, owner), len(voice.content))
            return None
        return _same(_stored(rows[0]), voice)

    def add(self, voice: NewVoice, reserved: Collection[str] = ()) -> StoredVoice:
        """Keep a voice; what is returned will be there after a power cut.

        The same voice once more, under the same name, is the one that is there, so that
        a request may be repeated.

        Raises:
            InvalidRequestError: the name will not do or is taken, or there are too many voices.
            StorageError: it could not be written, and is not there.
        """
        name = checked_name(voice.name)
        check_not_reserved(name, reserved)
        given = {**asdict(voice), "name": name}
        stored = StoredVoice(
            id=new_id("voice"),
            created_s=int(time.time()),
            num_bytes=len(given.pop("content")),
            content_hash=voice.content_hash,
            **given,
        )
        owner = voice.owner or ""
        with self._database.transaction() as changes:
            if rows := changes.execute(_SAME, name_key(name), owner):
                return _same(_stored(rows[0]), voice)
            self._check_limits(changes.execute(self._count, owner), len(voice.content))
            row = {**asdict(stored), "name_key": name_key(name), "owner": owner}
            changes.insert("voices", row, voice.content)
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
            NotOwnerError: it has no owner, or another one.
            InvalidRequestError: the name will not do, or another voice has it.
            StorageError: the folder cannot be written; nothing has changed.
        """
        voice = self.get(name_or_id)
        self._check_owner(voice, "change")
        if name is not None:
            voice = replace(voice, name=checked_name(name))
            check_not_reserved(voice.name, reserved)
        if description is not None:
            voice = replace(voice, description=description)
        key = name_key(voice.name)
        with self._database.transaction() as changes:
            if changes.execute(_OTHERS, key, voice.owner or "", voice.id):
                raise _taken(voice.name)
            changes.execute(_EDIT, voice.name, key, voice.description, voice.id)
        return voice

    def delete(self, name_or_id: str) -> StoredVoice:
        """Forget a voice, and return what it was; a full disk is no hindrance.

        Raises:
            UnknownVoiceError: there is none.
            NotOwnerError: it has no owner, or another one.
            StorageError: the folder cannot be written; the voice is still there.
        """
        voice = self.get(name_or_id)
        self._check_owner(voice, "delete")

        def deleted() -> None:
            with self._database.transaction() as changes:
                if not changes.execute("SELECT id FROM voices WHERE id = ?", voice.id):
                    raise UnknownVoiceError(name_or_id, ["none"])  # another caller was first
                changes.delete("voices", voice.id)

        self._database.reserve.within(deleted)
        return voice

    def _check_owner(self, voice: StoredVoice, action: str) -> None:
        if not self._caller.may_use(voice.owner):
            message = f"The voice '{voice.name}' is not yours to {action}."
            raise NotOwnerError(message, param="voice")


def _stored(row: sqlite3.Row) -> StoredVoice:
    return StoredVoice(**{**dict(row), "owner": row["owner"] or None})


def _same(stored: StoredVoice, voice: NewVoice) -> StoredVoice:
    """Return the voice that has the name already, if it is the same; raises InvalidRequestError."""
    facts = (stored.content_hash, stored.consent, stored.description)
    if facts != (voice.content_hash, voice.consent, voice.description):
        raise _taken(stored.name)
    return stored


def _taken(name: str) -> InvalidRequestError:
    return invalid(
        "name",
        f"there is a voice '{name}' already. Delete it first, or choose another name",
        code="voice_exists",
    )
