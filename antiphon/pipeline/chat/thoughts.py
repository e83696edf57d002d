"""Parts what a model thinks before it answers from the answer, while both are written."""

BEGIN, END = "<think>", "</think>"
"""Around thoughts: the marks of Qwen3, DeepSeek-R1 and those that follow them."""


class ThoughtSplit:
    """Splits one text, however it arrives.

    Thoughts stand at the beginning. Spaces around them are part of neither.
    """

    def __init__(self, *, in_thought: bool) -> None:
        """Begin; ``in_thought``: the prompt ended with the mark that thoughts begin with."""
        self._held = ""
        self._in_thought = in_thought
        self._is_begin = not in_thought  # of a text that may still begin with thoughts
        self._strips = in_thought  # spaces that come next

    def push(self, text: str) -> tuple[str, str]:
        """Take text; return what is certain of the answer, and of the thoughts."""
        self._held += text
        if self._is_begin:
            begun = self._held.lstrip()
            if len(begun) < len(BEGIN) and BEGIN.startswith(begun):
                return "", ""
            self._is_begin = False
            if begun.startswith(BEGIN):
                self._held = begun[len(BEGIN) :]
                self._in_thought = self._strips = True
        thought = self._thought() if self._in_thought else ""
        return ("" if self._in_thought else self._taken(len(self._held))), thought

    def flush(self) -> tuple[str, str]:
        """Return what is held, at the end."""
        rest = self._taken(len(self._held))
        return ("", rest.rstrip()) if self._in_thought else (rest, "")

    def _thought(self) -> str:
        end = self._held.find(END)
        if end >= 0:
            thought = self._taken(end).rstrip()
            self._held = self._held[len(END) :]
            self._in_thought, self._strips = False, True
            return thought
        return self._taken(self._num_certain())

    def _num_certain(self) -> int:
        """Return how many characters can be no part of the end mark, or of spaces before it."""
        held = self._held
        length = next(n for n in range(len(END) - 1, -1, -1) if held.endswith(END[:n]))
        return len(held[: len(held) - length].rstrip())

    def _taken(self, length: int) -> str:
        text, self._held = self._held[:length], self._held[length:]
        if self._strips:
            text = text.lstrip()
            self._strips = not text
        return text
