"""Items of a running conversation, cut to what was played of them."""

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from antiphon.contracts.chat_types import ChatRole, Message
from antiphon.errors import InvalidRequestError, invalid, shortened
from antiphon.pipeline.chat.playback_transcript import PlaybackTranscript

ItemStatus: TypeAlias = Literal["in_progress", "completed", "incomplete"]

ROOT = "root"
"""What is before the first item."""
MAX_ITEMS = 1000
_ITEM_BYTES = 1024
"""Of an item without its text."""


@dataclass(slots=True, eq=False)
class TalkItem:
    """A message.

    Attributes:
        id: unique in its conversation.
        text: Text, or its part that was played.
        transcript: Transcript of an answer that is spoken here; ``None`` otherwise.
    """

    id: str
    role: ChatRole
    text: str = ""
    status: ItemStatus = "completed"
    is_spoken: bool = False
    transcript: PlaybackTranscript | None = None

    @property
    def num_bytes(self) -> int:
        """Memory that it takes, about."""
        return sys.getsizeof(self.id) + sys.getsizeof(self.text) + _ITEM_BYTES


class TalkHistory:
    """Items in order."""

    def __init__(self, max_characters: int, hold: Callable[[int], None] = lambda _: None) -> None:
        """Begin empty.

        Args:
            max_characters: length of all items together.
            hold: called with the memory that the items take, before they take more; it may refuse.
        """
        self._items: list[TalkItem] = []
        self._max_characters = max_characters
        self._hold = hold

    @property
    def last_id(self) -> str:
        """Id of the last item; `ROOT`: there is none."""
        return self._items[-1].id if self._items else ROOT

    def add_reply(self, item: TalkItem, after: str) -> str | None:
        """Add an answer as `add` does, at the end if what it follows was deleted meanwhile."""
        is_there = after == ROOT or any(each.id == after for each in self._items)
        return self.add(item, after if is_there else None)

    def add(self, item: TalkItem, after: str | None = None) -> str | None:
        """Add an item; return the id of the one before it, ``None`` if it is the first.

        Args:
            after: id of the item before it; `ROOT`: none is; ``None``: the last one is.

        Raises:
            InvalidRequestError: there is no item ``after``, one has the new one's id, or there is
                too much already.
        """
        if any(each.id == item.id for each in self._items):
            raise InvalidRequestError(
                f"There is an item '{shortened(item.id)}' already.", param="item.id"
            )
        num_characters = sum(len(each.text) for each in self._items) + len(item.text)
        if len(self._items) >= MAX_ITEMS or num_characters > self._max_characters:
            raise InvalidRequestError(
                f"A conversation has at most {MAX_ITEMS} items and {self._max_characters}"
                " characters: delete some.",
                param="item",
                code="string_above_max_length",
            )
        if after is None:
            place = len(self._items)
        elif after == ROOT:
            place = 0
        else:
            place = self._items.index(self.find(after, "previous_item_id")) + 1
        self._hold(self._num_bytes() + item.num_bytes)
        self._items.insert(place, item)
        return self._items[place - 1].id if place else None

    def find(self, id: str, param: str = "item_id") -> TalkItem:
        """Return the item of this id; ``param`` names the field in errors.

        Raises:
            InvalidRequestError: there is none.
        """
        for each in self._items:
            if each.id == id:
                return each
        raise InvalidRequestError(f"There is no item '{shortened(id)}'.", param=param)

    def delete(self, id: str) -> None:
        """Remove an item; raises InvalidRequestError."""
        self._items.remove(self._ended(id))
        self._hold(self._num_bytes())

    def truncate(self, id: str, played_ms: int) -> None:
        """Cut an answer to what was played by a time in its audio; raises InvalidRequestError."""
        item = self._ended(id)
        if item.transcript is None:
            raise InvalidRequestError(
                f"The item '{shortened(id)}' has no audio of ours.", param="item_id"
            )
        duration_ms = 1000 * item.transcript.duration_s
        if played_ms > duration_ms + 1:  # what clients count is rounded
            raise invalid("audio_end_ms", f"{played_ms}. The audio has {int(duration_ms)} ms")
        item.text = min(item.text, item.transcript.until(played_ms / 1000), key=len)
        if item.text != item.transcript.text:
            item.status = "incomplete"

    def messages(
        self, instructions: str, items: Iterable[TalkItem] | None = None
    ) -> tuple[Message, ...]:
        """Return what a model is to answer.

        Args:
            instructions: Instructions that come first, if there are any.
            items: instead of those of the conversation.
        """
        first = (Message("system", instructions),) if instructions.strip() else ()
        items_given = self._items if items is None else items
        return (*first, *(Message(each.role, each.text) for each in items_given if each.text))

    def _num_bytes(self) -> int:
        return sum(each.num_bytes for each in self._items)

    def _ended(self, id: str) -> TalkItem:
        item = self.find(id)
        if item.status == "in_progress":
            raise InvalidRequestError(
                f"The item '{shortened(id)}' is still being written: cancel its response first.",
                param="item_id",
            )
        return item
