"""Utterances whose text is pushed in pieces, spoken one after the other to one listener.

The next utterance's first segment is begun while one is played, so that no listener waits between
two.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial

from antiphon.concurrency import cancel_and_wait
from antiphon.contracts.types import SpeechRequest
from antiphon.errors import AntiphonError, InputTooLongError
from antiphon.pipeline.speech.segmenter import MAX_CHARACTERS_AT_ONCE, pieces_of
from antiphon.pipeline.speech.service import Speech
from antiphon.pipeline.speech.text_synthesis import TextSynthesis

BYTES_PER_CHARACTER = 64
"""Memory of text that waits to be spoken, where each short sentence is a segment."""
UTTERANCE_BYTES = 16 * 1024
"""Memory of an utterance without text: its synthesis, tasks and encoder."""


class Utterance:
    """Text of bounded length for ``synthesis``; ``num_characters``: pushed so far."""

    def __init__(
        self,
        synthesis: TextSynthesis,
        max_characters: int,
        hold: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Begin without text; ``hold`` is called with the memory of more, which it may refuse."""
        self.synthesis = synthesis
        self._hold = hold
        self.num_characters = 0
        self._max_characters = max_characters
        self._is_complete = False
        self._waiting: deque[Callable[[], None]] = deque()
        self._planning: asyncio.Task[None] | None = None

    @property
    def num_bytes(self) -> int:
        """Memory that it was counted with."""
        return UTTERANCE_BYTES + BYTES_PER_CHARACTER * self.num_characters

    def push(self, text: str) -> None:
        """Add text.

        Raises:
            InputTooLongError: it would be longer than the server accepts; nothing is added.
            AntiphonError: there is no memory for it; nothing is added.
        """
        assert not self._is_complete, "text came after its end"
        num_characters = self.num_characters + len(text)
        if num_characters > self._max_characters:
            raise InputTooLongError(num_characters, self._max_characters)
        self._hold(BYTES_PER_CHARACTER * len(text))
        self.num_characters = num_characters
        if len(text) <= MAX_CHARACTERS_AT_ONCE:
            self._in_turn(partial(self.synthesis.push, text))
            return
        self._waiting += [partial(self.synthesis.push, piece) for piece in pieces_of(text)]
        if self._planning is None or self._planning.done():
            self._planning = asyncio.create_task(self._plan_in_turn())

    def flush(self) -> None:
        """See `TextSynthesis.flush`."""
        self._in_turn(self.synthesis.flush)

    def complete(self) -> None:
        """Mark the text as complete; may be called again."""
        self._is_complete = True
        self._in_turn(self.synthesis.finish)

    async def close(self) -> None:
        """Stop all work, wherever it is; returns when everything is free."""
        if self._planning is not None:
            await cancel_and_wait(self._planning)
        await self.synthesis.close()

    def _in_turn(self, action: Callable[[], None]) -> None:
        """Do something to the text, now or after what waits to be planned."""
        if self._waiting:
            self._waiting.append(action)
        else:
            action()

    async def _plan_in_turn(self) -> None:
        """Plan a long text in pieces, between which other tasks have their turn."""
        while self._waiting:
            self._waiting[0]()
            self._waiting.popleft()
            await asyncio.sleep(0)


class SpeechSession:
    """The utterances of one listener, in the order in which they were opened."""

    def __init__(self, speech: Speech, hold: Callable[[int], None] = lambda _: None) -> None:
        """Begin without utterances.

        ``hold`` is called with the memory that is taken, which it may refuse, or, as a negative
        number, given back.
        """
        self._speech = speech
        self._hold = hold
        self._utterances: list[Utterance] = []

    def open(self, request: SpeechRequest, *, reads_late: bool = True) -> Utterance:
        """Begin an utterance; arguments and errors as of `Speech.open`."""
        self._hold(UTTERANCE_BYTES)
        try:
            synthesis = self._speech.open(request, reads_late=reads_late)
        except AntiphonError:
            self._hold(-UTTERANCE_BYTES)
            raise
        utterance = Utterance(synthesis, self._speech.settings.max_input_characters, self._hold)
        self._utterances.append(utterance)
        self._prefetch_next()
        return utterance

    @property
    def num_characters(self) -> int:
        """Of all utterances that have not ended."""
        return sum(utterance.num_characters for utterance in self._utterances)

    async def end(self, utterance: Utterance) -> None:
        """Close an utterance, spoken or not, and begin the one after the next.

        If this is cancelled, `clear` still closes it.
        """
        await utterance.close()
        if utterance in self._utterances:
            self._utterances.remove(utterance)
            self._hold(-utterance.num_bytes)
            self._prefetch_next()

    async def clear(self) -> None:
        """Drop all utterances; returns when everything is free."""
        dropped, self._utterances = self._utterances, []
        await asyncio.gather(*(utterance.close() for utterance in dropped))
        self._hold(-sum(utterance.num_bytes for utterance in dropped))

    def _prefetch_next(self) -> None:
        for utterance in self._utterances[1:2]:
            utterance.synthesis.prefetch()
