"""Rows of a data folder as one caller sees them: its own, and for some tables those of all."""

import sqlite3
from collections.abc import Sequence
from copy import copy
from typing import Self

from antiphon.contracts.types import OPERATOR, Caller
from antiphon.errors import InvalidRequestError
from antiphon.storage.voice_database import VoiceDatabase


class OwnedRows:
    """Base of the stores of voices and consents; blocks, so it belongs in worker threads."""

    _table: str
    _noun: str

    def __init__(self, database: VoiceDatabase, max_rows: int, max_owned_rows: int = 0) -> None:
        """Keep up to ``max_rows``, and so many of one owner (0: no further limit)."""
        self._database = database
        self._max_rows = max_rows
        self._max_owned_rows = max_owned_rows or max_rows
        self._caller = OPERATOR
        self._count = f"SELECT count(*), total(owner = ?) FROM {self._table}"

    def seen_by(self, caller: Caller) -> Self:
        """Return the same rows as another caller sees them."""
        view = copy(self)
        view._caller = caller
        return view

    def _check_limits(self, counted: Sequence[sqlite3.Row], num_bytes: int) -> None:
        """Check that one more row fits, given the result of the query `_count`.

        Raises:
            InvalidRequestError: there are too many.
            StorageFullError: the disk has no room for its bytes.
        """
        self._database.check_room(num_bytes)
        num_all, num_owned = counted[0] if counted else (0, 0)
        for number, limit, setting in (
            (num_all, self._max_rows, "data.max_voices"),
            (int(num_owned), self._max_owned_rows, "data.max_owner_voices"),
        ):
            if number >= limit:
                raise InvalidRequestError(
                    f"There are {number} {self._noun}; at most {limit} are allowed ({setting})."
                    " Delete one first.",
                    code=f"too_many_{self._table}",
                )
