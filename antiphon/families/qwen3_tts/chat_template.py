"""Cuts text into the ids of a chat turn, in which the model has learned to read it.

    <|im_start|>user\\n INSTRUCTIONS <|im_end|>\\n
    <|im_start|>assistant\\n TEXT <|im_end|>\\n

Special ids are put in as numbers, so that a text that spells one out is only read as letters.
"""

from collections.abc import Callable
from typing import TypeAlias

from antiphon.families.qwen3_tts.config import TextTokens
from antiphon.families.qwen3_tts.prompt_layout import Ids

Encode: TypeAlias = Callable[[str], Ids]
"""Plain text to ids."""

_NUM_ROLE_IDS = 3


class ChatTemplate:
    """Makes the parts of a prompt that are text."""

    def __init__(self, encode: Encode, tokens: TextTokens) -> None:
        self._encode = encode
        self._tokens = tokens

    def spoken(self, text: str) -> tuple[Ids, Ids]:
        """Return the role and the ids of a text that the model says.

        They are cut by number, as in the official code: a newline at the start of a text melts
        into the role.
        """
        ids = self._assistant(text)
        return ids[:_NUM_ROLE_IDS], ids[_NUM_ROLE_IDS:]

    def begun(self, text: str) -> tuple[Ids, Ids, str]:
        """Return the role and the first ids of a text that may go on, and what is left of it.

        That is all but the newlines at its start, which are read together with the role.
        """
        num_spaces = len(text) - len(text.lstrip())
        num_read = 1 + max(text.rfind("\n", 0, num_spaces), text.rfind("\r", 0, num_spaces))
        return *self.spoken(text[:num_read]), text[num_read:]

    def instructions(self, text: str) -> Ids:
        """Return a whole turn of the user; nothing for ``""``."""
        if not text:
            return ()
        said = self._encode(f"user\n{text}")
        return (self._tokens.im_start, *said, self._tokens.im_end, *self._encode("\n"))

    def _assistant(self, text: str) -> Ids:
        return (self._tokens.im_start, *self._encode(f"assistant\n{text}"))
