"""Recordings in which somebody agrees that a voice is made of theirs, kept as voices are."""

import re
import time
from dataclasses import asdict, dataclass, fields, replace

from antiphon.errors import InvalidRequestError, UnknownConsentError
from antiphon.voices.names import checked_text, new_id
from antiphon.voices.vault import Vault

_MAX_LABEL_CHARACTERS = 200
_LANGUAGE = re.compile(r"[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8}){0,4}")
_ID = re.compile(r"cons_[0-9a-f]{24}")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredConsent:
    """What is known of a consent.

    Attributes:
        id: ``cons_`` and digits.
        name: a label for people.
        language: of the recording, a BCP 47 tag.
        created_s: Unix time.
        media_type: of the recording.
        num_bytes: of the recording.
    """

    id: str
    name: str
    language: str
    created_s: int
    media_type: str
    num_bytes: int


_COLUMNS = ", ".join(field.name for field in fields(StoredConsent))


class ConsentStore:
    """Consents by id; blocks, so it belongs in worker threads."""

    def __init__(self, vault: Vault, max_consents: int) -> None:
        """Keep up to ``max_consents`` in a vault."""
        self._vault = vault
        self._max_consents = max_consents

    def page(self, limit: int, after: str | None = None) -> tuple[list[StoredConsent], bool]:
        """Return up to ``limit`` consents, the newest first, and whether there are more.

        ``after`` is the last id of the page before; it may have been deleted since.
        """
        rows = self._vault.query(
            f"SELECT {_COLUMNS} FROM consents WHERE id < ? ORDER BY id DESC LIMIT ?",
            after or "cons_g",  # sorts after every id
            limit + 1,
        )
        return [StoredConsent(**dict(row)) for row in rows[:limit]], len(rows) > limit

    def get(self, id: str) -> StoredConsent:
        """Return a consent.

        Raises:
            UnknownConsentError: there is none.
        """
        rows = self._vault.query(f"SELECT {_COLUMNS} FROM consents WHERE id = ?", id)
        if not rows:
            raise UnknownConsentError(id)
        return StoredConsent(**dict(rows[0]))

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
        consent = StoredConsent(
            id=new_id("cons"),
            name=checked_label(name),
            language=_checked_language(language),
            created_s=int(time.time()),
            media_type=media_type,
            num_bytes=len(recording),
        )
        with self._vault.change() as change:
            (counted,) = change.execute("SELECT count(*) FROM consents")
            if counted[0] >= self._max_consents:
                raise InvalidRequestError(
                    f"There are {counted[0]} consents; at most {self._max_consents} are allowed"
                    " (data.max_voices). Delete one first.",
                    code="too_many_consents",
                )
            change.insert("consents", asdict(consent), recording)
        return consent

    def rename(self, id: str, name: str) -> StoredConsent:
        """Change a consent's label.

        Raises:
            UnknownConsentError: there is none.
            InvalidRequestError: the label will not do.
            StorageError: the folder cannot be written.
        """
        consent = replace(self.get(id), name=checked_label(name))
        with self._vault.change() as change:
            change.execute("UPDATE consents SET name = ? WHERE id = ?", consent.name, id)
        return consent

    def delete(self, id: str) -> None:
        """Forget a consent; voices that name it keep its id.

        Raises:
            UnknownConsentError: there is none.
            StorageError: the folder cannot be written; it is still there.
        """
        self.get(id)
        with self._vault.change() as change:
            change.delete("consents", id)


def checked_label(name: str) -> str:
    """Return a label in its normal form.

    Raises:
        InvalidRequestError: it is empty, too long, or no valid text.
    """
    label = checked_text(name, "name", _MAX_LABEL_CHARACTERS)
    if not label or not label.isprintable():
        raise InvalidRequestError(
            "Invalid 'name': it must be one line of printable text.", param="name"
        )
    return label


def _checked_language(language: str) -> str:
    if not _LANGUAGE.fullmatch(language):
        raise InvalidRequestError(
            "Invalid 'language': it must be a tag such as 'en' or 'en-US'.", param="language"
        )
    return language
