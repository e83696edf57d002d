"""Token ids of a chat turn, the format that the model was trained on.

    <|im_start|>user\\n INSTRUCTIONS <|im_end|>\\n
    <|im_start|>assistant\\n TEXT <|im_end|>\\n

Special ids are inserted as numbers, so that a text that spells one out is read as letters.
"""

from collections.abc import Callable
from typing import TypeAlias

from antiphon.families.qwen3_tts.config import TextTokens
from antiphon.families.qwen3_tts.prompt_layout import Ids

Encode: TypeAlias = Callable[[str], Ids]
"""Plain text to ids."""

_NUM_ROLE_IDS = 3


class ChatTemplate:
    """Template of the text parts of a prompt."""

    def __init__(self, encode: Encode, tokens: TextTokens) -> None:
        self._encode = encode
        self._tokens = tokens

    def spoken(self, text: str) -> tuple[Ids, Ids]:
        """Return the role and the ids of a text to be spoken.

        They are cut by number, as in the official code: a newline at the start of a text merges
        into the role.
        """
        ids = self._assistant(text)
        return ids[:_NUM_ROLE_IDS], ids[_NUM_ROLE_IDS:]

    def begun(self, text: str) -> tuple[Ids, Ids, str]:
        """Return the role and the first ids of a text that may continue, and its remainder.

        The remainder is all but the leading newlines, which are tokenized together with the role.
        """
        num_spaces = len(text) - len(text.lstrip())
        num_read = 1 + max(text.rfind("\n", 0, num_spaces), text.rfind("\r", 0, num_spaces))
        return *self.spoken(text[:num_read]), text[num_read:]

    def instructions(self, text: str) -> Ids:
        """Return a user turn with the instructions; nothing for ``""``."""
        if not text:
            return ()
        said = self._encode(f"user\n{text}")
        return (self._tokens.im_start, *said, self._tokens.im_end, *self._encode("\n"))

    def _assistant(self, text: str) -> Ids:
        return (self._tokens.im_start, *self._encode(f"assistant\n{text}"))
