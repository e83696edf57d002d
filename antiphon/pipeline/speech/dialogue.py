"""Several texts, each with its own voice, spoken one after the other as one stream."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, zip_longest

from antiphon.audio.wav import num_channels, silence
from antiphon.contracts.types import (
    AudioChunk,
    Ended,
    SpeechEvent,
    SpeechRequest,
    SpeechStream,
    WordTime,
)
from antiphon.errors import RateLimitError, UnspeakableTextError
from antiphon.pipeline.speech.pauses import pauses_s
from antiphon.pipeline.speech.service import Speech
from antiphon.pipeline.speech.synthesis import both_ended, joined
from antiphon.pipeline.speech.text_plan import Prefetcher, Source
from antiphon.text.offset_map import OffsetMap


@dataclass(frozen=True, slots=True)
class TurnTime:
    """Start and end of a turn in the stream; the pause after it is not counted."""

    start_s: float
    end_s: float


@dataclass(slots=True)
class Dialogue:
    """Turns that are played in order; the next is begun while one is played.

    Attributes:
        turns: requests with ids of their own, of one model and one sample rate.
        sent: text that the turns are parts of; empty: words are those of their turn.
        offsets: origins in it of the turns' texts, one after the other.
        turn_times: Times of the turns that have ended.
    """

    speech: Speech
    turns: Sequence[SpeechRequest]
    open: Callable[[SpeechRequest], SpeechStream]
    pause_s: float = 0.0
    sent: str = ""
    offsets: OffsetMap = field(default_factory=OffsetMap)
    turn_times: list[TurnTime] = field(default_factory=list)

    async def events(self) -> SpeechStream:
        """Yield the audio of all turns, then one `Ended`; words are timed from the beginning.

        A turn of which its voice can speak nothing is left out, but for its pauses.

        Raises:
            UnspeakableTextError: all turns are such ones.
            InvalidRequestError: before the first chunk, whichever turn is wrong.
            EngineError: the model failed.
        """
        await self._check()
        total, now_s, silent_s, last = Ended("stop"), 0.0, 0.0, AudioChunk(silence(0), 0)
        num_characters = 0
        opened: list[Source[SpeechEvent]] = [_Turn(self.open, self.turns[0], is_first=True)]
        try:
            for turn, following in zip_longest(self.turns, self.turns[1:]):
                opened = opened or [_Turn(self.open, turn)]
                start_s = now_s
                while isinstance(item := await opened[0].next(), AudioChunk):
                    if len(opened) == 1 and following is not None:
                        opened.append(Prefetcher(_Turn(self.open, following)))
                    unspoken = joined(() if last.sample_rate_hz else total.unspoken, item.unspoken)
                    words = map(partial(self._placed, num_characters, start_s), item.words)
                    last = replace(item, words=tuple(words))
                    for chunk in chain(_silence(silent_s, item), (last,)):
                        yield replace(chunk, unspoken=unspoken)
                        unspoken = ()
                    silent_s = 0.0
                    now_s += item.duration_s
                assert item is not None, "a stream ends with one Ended"
                total = both_ended(total, item)
                if now_s == start_s:
                    silent_s += (unspoken_s := pauses_s(turn.input))
                    now_s += unspoken_s
                num_characters += len(turn.input)
                self.turn_times.append(TurnTime(start_s, now_s))
                await opened[0].close()
                del opened[0]
                if last.sample_rate_hz:
                    pause_s = 0.0 if following is None else self.pause_s
                    for chunk in _silence(silent_s + pause_s, last):
                        yield chunk
                    now_s, silent_s = now_s + pause_s, 0.0
        finally:
            for each in opened:
                await each.close()
        if (total.unspoken or silent_s) and not last.sample_rate_hz:
            raise UnspeakableTextError(total.unspoken)
        yield total

    def _placed(self, num_before: int, start_s: float, word: WordTime) -> WordTime:
        """Return a word of a turn as a word of the whole text, from the beginning of the stream."""
        if not self.sent:
            return word.later(start_s)
        start, stop = self.offsets.origin(num_before + word.offset, num_before + word.stop)
        return replace(word.later(start_s), word=self.sent[start:stop], offset=start)

    async def _check(self) -> None:
        """Refuse any turn's errors before the first is played."""
        text = "".join(turn.input for turn in self.turns)
        self.speech.check_length(replace(self.turns[0], input=text))
        for turn in self.turns:
            async with aclosing(self.open(turn)):
                await self.speech.resolve_voice(turn, self.speech.model(turn.model))
            await asyncio.sleep(0)  # there may be many: others have their turn in between


class _Turn:
    """A `Source` of a turn's events; a later one waits where the first is refused."""

    def __init__(
        self,
        open: Callable[[SpeechRequest], SpeechStream],
        request: SpeechRequest,
        *,
        is_first: bool = False,
    ) -> None:
        self._open = partial(open, request)
        self._is_first = is_first
        self._events: SpeechStream | None = None

    async def next(self) -> SpeechEvent | None:
        while True:
            try:
                if self._events is None:
                    self._events = self._open()
                return await anext(self._events, None)
            except RateLimitError as error:
                if self._is_first:
                    raise
                await self.close()
                await asyncio.sleep(error.retry_after_s or 1.0)
            except UnspeakableTextError as error:
                return Ended("stop", unspoken=error.words)

    async def close(self) -> None:
        events, self._events = self._events, None
        if events is not None:
            await events.aclose()


def _silence(duration_s: float, like: AudioChunk) -> Iterator[AudioChunk]:
    """Yield silence with the rate and the channels of a chunk, at most a second at once."""
    rate_hz, channels = like.sample_rate_hz, num_channels(like.samples)
    num_samples = round(duration_s * rate_hz)
    for start in range(0, num_samples, rate_hz):
        yield AudioChunk(silence(min(num_samples - start, rate_hz), channels), rate_hz)
