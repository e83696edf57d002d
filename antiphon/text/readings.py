"""Shared types of the rules that write text out."""

from collections.abc import Callable
from typing import TypeAlias

from antiphon.text.tokens import TokenizedText

Reading: TypeAlias = tuple[tuple[int, str], ...]
"""Consecutive stretches of tokens, each by the token behind it, and their words."""
Rule: TypeAlias = Callable[[TokenizedText, int], Reading | None]
"""Reads what begins at a token; ``None`` if it is not of the rule's class."""
