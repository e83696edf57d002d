"""Shared types of the rules that write text out in words."""

from collections.abc import Callable
from typing import TypeAlias

from antiphon.text.tokens import TokenizedText

Reading: TypeAlias = tuple[tuple[int, str], ...]
"""Consecutive runs of tokens, each given by the token after it, and their words."""
Rule: TypeAlias = Callable[[TokenizedText, int], Reading | None]
"""Rule that reads from a token on; ``None`` if it does not apply."""
