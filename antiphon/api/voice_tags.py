"""Tags of Kokoro-FastAPI's texts that change who speaks: ``[voice:NAME]`` and ``[rate:1.2]``.

A backslash before one makes it text. A voice's tag sets the rate back to 1. Text without words
between two tags joins the part before it, or else after it, so that its pauses are kept.
"""

import re
from dataclasses import dataclass, replace
from functools import partial

from antiphon.api.options import open_stream
from antiphon.api.schemas.kokoro import KokoroMembers
from antiphon.api.schemas.speech import SpeechBody
from antiphon.api.state import ServerState
from antiphon.audio.stretch import MAX_SPEED, MIN_SPEED
from antiphon.contracts.types import SpeechRequest, SpeechStream
from antiphon.errors import InvalidRequestError, invalid
from antiphon.pipeline.speech.dialogue import Dialogue
from antiphon.pipeline.speech.pauses import PauseSplitter, split_pauses
from antiphon.text.offset_map import OffsetMap

MAX_TAGS = 200

_VALUE = r"[^\[\]\n]{0,500}"
_TAG = re.compile(rf"\[(voice|rate):({_VALUE})\]", re.IGNORECASE)
_OPEN_TAG = re.compile(
    rf"\[(?:v(?:o(?:i(?:c(?:e(?::{_VALUE})?)?)?)?)?|r(?:a(?:t(?:e(?::{_VALUE})?)?)?)?)?",
    re.IGNORECASE,
)
_RATE = re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,6})?")


@dataclass(frozen=True, slots=True)
class Speaker:
    """Who speaks the text that follows, and how fast."""

    voice: str | None = None
    rate: float = 1.0

    def over(self, request: SpeechRequest) -> SpeechRequest:
        """Return a request as this speaker speaks it."""
        speed = min(MAX_SPEED, max(MIN_SPEED, request.speed * self.rate))
        return replace(request, voice=self.voice or request.voice, speed=speed)


class TagSplitter:
    """Takes the tags out of a text that arrives in pieces.

    Where it is cut changes nothing but which spaces beside tags are left out.

    Attributes:
        offsets: origins of the text without its tags, of all speakers together.
    """

    def __init__(self) -> None:
        self.offsets = OffsetMap()
        self._held = ""  # a tag may begin in it
        self._silent = ""  # text of the part under way, while it has no words
        self._speaker = Speaker()
        self._has_spoken = self._is_spoken = self._follows_tag = False
        self._num_tags = 0

    def push(self, text: str, *, is_last: bool = False) -> list[str | Speaker]:
        """Take in more text; return speakers, each before its text; the first one comes first.

        Raises:
            InvalidRequestError: a tag is wrong, or there are too many.
        """
        text = self._held + text
        end = len(text) if is_last else _certain_end(text)
        text, self._held = text[:end], text[end:]
        items: list[str | Speaker] = []
        start = 0
        for tag in _TAG.finditer(text):
            before, start = text[start : tag.start()], tag.end()
            self._num_tags += 1
            if before.endswith("\\"):
                items += self._said(before[:-1])
                self.offsets.skip(1)
                items += self._said(tag[0])
                continue
            text_before = before.rstrip()
            items += [*self._said(text_before), *self._ended(is_last=False)]
            self.offsets.skip(len(before) - len(text_before) + len(tag[0]))
            self._read(tag)
        items += self._said(text[start:])
        return [*items, *self._ended(is_last=True)] if is_last else items

    def _said(self, text: str) -> list[str | Speaker]:
        if self._follows_tag:
            num_spaces = len(text) - len(text.lstrip())
            self.offsets.skip(num_spaces)
            text = text[num_spaces:]
            self._follows_tag = not text
        self.offsets.copy(len(text))
        if not text or self._is_spoken:
            return [text] if text else []
        self._silent += text
        return self._begun() if _speaks(self._silent) else []

    def _begun(self) -> list[str | Speaker]:
        text, self._silent = self._silent, ""
        self._is_spoken = self._has_spoken = True
        return [self._speaker, text]

    def _ended(self, *, is_last: bool) -> list[str | Speaker]:
        """End a part; of one without words, return what joins the part before."""
        self._is_spoken = False
        if not self._silent.strip() or not (self._has_spoken or is_last):
            return []
        if not self._has_spoken:
            return self._begun()
        text, self._silent = self._silent, ""
        return [text]

    def _read(self, tag: "re.Match[str]") -> None:
        if self._num_tags > MAX_TAGS:
            raise invalid("input", f"it has more than {MAX_TAGS} tags")
        self._follows_tag = True
        value = tag[2].strip()
        if tag[1].lower() == "rate":
            self._speaker = replace(self._speaker, rate=_rate(tag[0], value))
        elif value:
            self._speaker = Speaker(value)
        else:
            raise invalid("input", f"{tag[0]} names no voice")


def split_turns(text: str) -> tuple[list[tuple[Speaker, str]], OffsetMap]:
    """Return who speaks what of a whole text, in order, and the origins of all that is spoken.

    There are no turns in a blank text.

    Raises:
        InvalidRequestError: a tag or a pause is wrong, or there are too many.
    """
    turns: list[tuple[Speaker, str]] = []
    splitter = TagSplitter()
    for item in splitter.push(text, is_last=True):
        if isinstance(item, Speaker):
            turns.append((item, ""))
        else:
            speaker, words = turns[-1]
            turns[-1] = speaker, words + item
    for _, words in turns:
        split_pauses(words)
    return turns, splitter.offsets


def _certain_end(text: str) -> int:
    """Return where a tag begins that is not complete, or where the text ends."""
    place = text.rfind("[")
    if place < 0 or not _OPEN_TAG.fullmatch(text, place):
        place = len(text)
    return place - text.endswith("\\", 0, place)


def _speaks(text: str) -> bool:
    """Whether there is certainly more in a text than pauses."""
    try:
        pieces = PauseSplitter().push(text)
    except InvalidRequestError:  # raised again where it is spoken
        return True
    return any(isinstance(piece, str) and piece.strip() for piece in pieces)


def _rate(tag: str, value: str) -> float:
    if not _RATE.fullmatch(value) or not MIN_SPEED <= float(value) <= MAX_SPEED:
        raise invalid(
            "input",
            f"{tag[:40]!a} is no rate: write [rate:{MIN_SPEED}] to [rate:{MAX_SPEED:g}], or"
            " \\[rate:...] for the text itself",
        )
    return float(value)


def open_tagged(body: SpeechBody, request: SpeechRequest, server: ServerState) -> SpeechStream:
    """Speak a request with all members of its body, Kokoro-FastAPI's members and tags included.

    Raises:
        InvalidRequestError: here, or before the first chunk.
    """
    server.speech.check_length(request)
    turns, offsets = tagged_turns(body, request, server)
    speak = partial(open_stream, body, server=server)
    if turns[0].input == request.input:
        return speak(turns[0])
    return Dialogue(server.speech, turns, speak, sent=request.input, offsets=offsets).events()


def tagged_turns(
    body: SpeechBody, request: SpeechRequest, server: ServerState
) -> tuple[list[SpeechRequest], OffsetMap]:
    """Return the requests that a request's tags separate it into, and the origins of their texts.

    Raises:
        InvalidRequestError: a tag, or a member of Kokoro-FastAPI's, is wrong.
    """
    members = KokoroMembers.of(body.model_extra or {})
    languages = server.speech.model(request.model).capabilities.languages
    request = members.over(request, languages)
    if not members.allow_voice_tags or "[" not in request.input:
        return [request], OffsetMap()
    turns, offsets = split_turns(request.input)
    if not turns:
        raise InvalidRequestError("Input text cannot be empty.", param="input")
    ids = [request.id] if len(turns) == 1 else [f"{request.id}/{i}" for i in range(len(turns))]
    return [
        replace(speaker.over(request), id=id, input=text)
        for id, (speaker, text) in zip(ids, turns, strict=True)
    ], offsets
