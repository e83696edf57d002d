"""Words that a voice leaves out: listed before synthesis; a text with no other words is refused."""

from collections.abc import Iterable

from antiphon.contracts.prompt import Prompter, SupportsTextChecks
from antiphon.contracts.types import Voice
from antiphon.errors import UnspeakableTextError

MAX_WORDS = 50
MAX_WORD_CHARACTERS = 40


def unspoken_words(
    prompter: Prompter, voice: Voice, language: str | None, texts: Iterable[str]
) -> tuple[str, ...]:
    """Return what ``voice`` leaves out of a text, given as its segments; see `Ended.unspoken`.

    Args:
        prompter: Prompter of the model.
        voice: Voice that speaks.
        language: Language of the request.
        texts: the segments.

    Raises:
        UnspeakableTextError: all of it; punctuation alone is no text that could be left out.
    """
    if not isinstance(prompter, SupportsTextChecks):
        return ()
    words: tuple[str, ...] = ()
    is_spoken = False
    for text in texts:
        check = prompter.check_text(text, voice, language)
        words = joined(words, check.unspoken)
        is_spoken = is_spoken or check.is_spoken
        if is_spoken and len(words) == MAX_WORDS:
            break
    if words and not is_spoken:
        raise UnspeakableTextError(voice.id, words)
    return words


def joined(left: tuple[str, ...], right: Iterable[str]) -> tuple[str, ...]:
    """Return the words of both, each once, cut to `MAX_WORDS`."""
    if len(left) == MAX_WORDS:
        return left
    words = dict.fromkeys(left)
    for word in right:
        is_long = len(word) > MAX_WORD_CHARACTERS
        words[f"{word[: MAX_WORD_CHARACTERS - 1]}…" if is_long else word] = None
        if len(words) == MAX_WORDS:
            break
    return tuple(words)
