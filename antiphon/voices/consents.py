"""Consents: recordings in which a speaker agrees to a copy of their voice, stored as voices are."""

import re
import sqlite3
import time
from dataclasses import asdict, dataclass, fields, replace

from antiphon.errors import invalid
from antiphon.storage.database import new_id
from antiphon.storage.errors import UnknownConsentError
from antiphon.voices.names import checked_text
from antiphon.voices.owned_rows import OwnedRows

_MAX_LABEL_CHARACTERS = 200
_LANGUAGE = re.compile(r"[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8}){0,4}")
_ID = re.compile(r"cons_[0-9a-f]{24}")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredConsent:
    """What is known of a consent.

    Attributes:
        id: ``cons_`` and digits.
        name: a label for people.
        language: Language of the recording, a BCP 47 tag.
        owner: Owner's id; ``None`` where keys have no owners.
    """

    id: str
    name: str
    language: str
    created_s: int
    media_type: str
    num_bytes: int
    owner: str | None = None


_COLUMNS = ", ".join(field.name for field in fields(StoredConsent))


class ConsentStore(OwnedRows):
    """Consents by id, as one caller sees them: its own."""

    _table = "consents"
    _noun = "consents"

    def page(self, limit: int, after: str | None = None) -> tuple[list[StoredConsent], bool]:
        """Return up to ``limit`` consents, the newest first, and whether there are more.

        ``after`` is the last id of the page before; it may have been deleted since.
        """
        rows = self._database.query(
            f"SELECT {_COLUMNS} FROM consents WHERE id < ? AND (? OR owner = ?)"
            " ORDER BY id DESC LIMIT ?",
            after or "cons_g",  # sorts after every id
            self._caller.is_admin,
            self._caller.owner or "",
            limit + 1,
        )
        return [_stored(row) for row in rows[:limit]], len(rows) > limit

    def get(self, id: str) -> StoredConsent:
        """Return a consent; raises UnknownConsentError if there is none."""
        rows = self._database.query(f"SELECT {_COLUMNS} FROM consents WHERE id = ?", id)
        if not rows or not self._caller.may_use(rows[0]["owner"] or None):
            raise UnknownConsentError(id)
        return _stored(rows[0])

    def check(self, consent: str) -> None:
        """Refuse the id of a consent that is not there; any other text is taken as it is.

        Raises:
            UnknownConsentError: there is none of this id.
        """
        if _ID.fullmatch(consent):
            self.get(consent)

    def add(self, name: str, language: str, recording: bytes, media_type: str) -> StoredConsent:
        """Keep a consent; what is returned will be there after a power cut.

        Raises:
            InvalidRequestError: a field will not do, or there are too many consents.
            StorageError: it could not be written, and is not there.
        """
        label = checked_label(name)
        if not _LANGUAGE.fullmatch(language):
            raise invalid("language", "it must be a tag such as 'en' or 'en-US'")
        consent = StoredConsent(
            id=new_id("cons"),
            name=label,
            language=language,
            created_s=int(time.time()),
            media_type=media_type,
            num_bytes=len(recording),
            owner=self._caller.owner,
        )
        owner = consent.owner or ""
        with self._database.transaction() as changes:
            self._check_limits(changes.execute(self._count, owner), len(recording))
            changes.insert("consents", {**asdict(consent), "owner": owner}, recording)
        return consent

    def rename(self, id: str, name: str) -> StoredConsent:
        """Change a consent's label.

        Raises:
            UnknownConsentError: there is none.
            InvalidRequestError: the label will not do.
            StorageError: the folder cannot be written.
        """
        consent = replace(self.get(id), name=checked_label(name))
        with self._database.transaction() as changes:
            changes.execute("UPDATE consents SET name = ? WHERE id = ?", consent.name, id)
        return consent

    def delete(self, id: str) -> None:
        """Forget a consent; voices that name it keep its id.

        Raises:
            UnknownConsentError: there is none.
            StorageError: the folder cannot be written; it is still there.
        """
        self.get(id)

        def deleted() -> None:
            with self._database.transaction() as changes:
                changes.delete("consents", id)

        self._database.reserve.within(deleted)


def _stored(row: sqlite3.Row) -> StoredConsent:
    return StoredConsent(**{**dict(row), "owner": row["owner"] or None})


def checked_label(name: str) -> str:
    """Return a label in its normal form; raises InvalidRequestError."""
    label = checked_text(name, "name", _MAX_LABEL_CHARACTERS)
    if not label or not label.isprintable():
        raise invalid("name", "it must be one line of printable text")
    return label
