"""From tokens to the text of an answer: characters are whole, and it ends before a stop string."""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from antiphon.contracts.chat import ChatPrompter
from antiphon.contracts.chat_types import ChatRequest, TextDelta, TokenLogprob
from antiphon.contracts.token_frame import TokenFrame
from antiphon.pipeline.chat.thoughts import ThoughtSplit

_LEAST_LOGPROB = -9999.0
"""OpenAI's log probability of tokens that are nearly impossible; JSON has no infinity."""


class StopSearch:
    """Finds the first of several strings in a text that arrives in pieces."""

    def __init__(self, stops: Sequence[str]) -> None:
        """Look for ``stops``, none of which is empty."""
        self._stops = tuple(stops)
        self._held = ""
        self.is_found = False

    def push(self, text: str) -> str:
        """Return the text that can be no part of a stop string; it ends before the first one."""
        if self.is_found:
            return ""
        self._held += text
        found = [at for stop in self._stops if (at := self._held.find(stop)) >= 0]
        self.is_found = bool(found)
        end = min(found) if found else len(self._held) - self._num_uncertain()
        certain, self._held = self._held[:end], self._held[end:]
        return certain

    def flush(self) -> str:
        """Return what is held at the end of the text."""
        held, self._held = self._held, ""
        return "" if self.is_found else held

    def _num_uncertain(self) -> int:
        """Return how long the longest end of the text is with which a stop string begins."""
        longest = max((len(stop) - 1 for stop in self._stops), default=0)
        for length in range(min(longest, len(self._held)), 0, -1):
            if any(stop.startswith(self._held[-length:]) for stop in self._stops):
                return length
        return 0


@dataclass(frozen=True, slots=True)
class _Written:
    """A token whose text has not been sent yet.

    Attributes:
        begin: characters of the answer before it.
        logprob: ``None``: none was asked for.
    """

    begin: int
    logprob: TokenLogprob | None


class AnswerText:
    """Makes the deltas of one answer.

    Attributes:
        num_certain: Number of tokens whose text has been sent, at least its beginning.
    """

    def __init__(
        self,
        prompter: ChatPrompter,
        request: ChatRequest,
        thoughts: ThoughtSplit | None = None,
    ) -> None:
        """Begin.

        Args:
            request: Request; its stop strings count after its minimum of tokens.
            thoughts: parts them from the answer; ``None``: all is the answer.
        """
        self._prompter = prompter
        self._detokenizer = prompter.detokenizer()
        self._search = StopSearch(request.stop)
        self._num_unsearched = request.min_tokens
        self._thoughts = thoughts
        self._num_logprobs = request.num_logprobs
        self._tokens: deque[_Written] = deque()
        self._num_read = 0  # characters that the tokens so far are
        self._num_told = 0
        self.num_certain = 0

    @property
    def is_stopped(self) -> bool:
        """Whether a stop string was found: nothing follows."""
        return self._search.is_found

    def push(self, frame: TokenFrame) -> TextDelta | None:
        """Take a token; return what has become certain by it."""
        text = self._detokenizer.push(frame.token)
        self._tokens.append(_Written(self._num_read, self._logprob(frame)))
        self._num_read += len(text)
        self._num_unsearched -= 1
        return self._told(text if self._num_unsearched >= 0 else self._search.push(text))

    def flush(self) -> TextDelta | None:
        """Return the rest, at the end of the answer."""
        text = self._search.push(self._detokenizer.flush()) + self._search.flush()
        return self._told(text, is_last=True)

    def _told(self, text: str, *, is_last: bool = False) -> TextDelta | None:
        """Return text, and the tokens that begin in it or before it."""
        self._num_told += len(text)
        sent = []
        if text or is_last:
            is_whole = is_last and not self.is_stopped
            while self._tokens and (is_whole or self._tokens[0].begin < self._num_told):
                sent.append(self._tokens.popleft())
        self.num_certain += len(sent)
        logprobs = tuple(each.logprob for each in sent if each.logprob is not None)
        thought = ""
        if self._thoughts is not None:
            text, thought = self._parted(text, self._thoughts, is_last=is_last)
        if not (text or thought or logprobs):
            return None
        return TextDelta(text, len(sent), logprobs, thought)

    @staticmethod
    def _parted(text: str, thoughts: ThoughtSplit, *, is_last: bool) -> tuple[str, str]:
        spoken, thought = thoughts.push(text)
        if is_last:
            rest = thoughts.flush()
            spoken, thought = spoken + rest[0], thought + rest[1]
        return spoken, thought

    def _logprob(self, frame: TokenFrame) -> TokenLogprob | None:
        if self._num_logprobs is None:
            return None
        pairs = zip(frame.top_tokens, frame.top_logprobs, strict=True)
        top = tuple(
            self._said(int(token), float(logprob))
            for token, logprob in list(pairs)[: self._num_logprobs]
            if token >= 0
        )
        return self._said(frame.token, frame.logprob, top)

    def _said(self, token: int, logprob: float, top: tuple[TokenLogprob, ...] = ()) -> TokenLogprob:
        content = self._prompter.token_bytes(token)
        finite = logprob if math.isfinite(logprob) else _LEAST_LOGPROB
        return TokenLogprob(content.decode(errors="replace"), content, finite, top)
