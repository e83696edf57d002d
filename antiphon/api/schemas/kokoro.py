"""What Kokoro-FastAPI's clients send beside OpenAI's fields, and the tags in their texts."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
from pydantic_core.core_schema import ValidationInfo

from antiphon.api.schemas.speech import Text
from antiphon.api.validation import validated
from antiphon.errors import InvalidRequestError
from antiphon.pipeline.speech.pauses import split_pauses
from antiphon.pipeline.speech.service import MAX_SPEED, MIN_SPEED
from antiphon.types import SpeechRequest

MAX_VOLUME = 10.0
MAX_TAGS = 200

_LANGUAGES: Mapping[str, tuple[str, ...]] = {
    "a": ("en-us", "en", "english"),
    "b": ("en-gb", "en", "english"),
    "e": ("es", "spanish"),
    "f": ("fr-fr", "fr", "french"),
    "h": ("hi", "hindi"),
    "i": ("it", "italian"),
    "j": ("ja", "japanese"),
    "p": ("pt-br", "pt", "portuguese"),
    "z": ("zh", "chinese"),
}
"""Kokoro's letters, and what models may call these languages."""
_TAG = re.compile(r"(\\?)\[(voice|rate):([^\[\]\n]{0,500})\]", re.IGNORECASE)
_RATE = re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,6})?")


class NormalizationOptions(BaseModel):
    """Whether numbers are written out; the parts of it cannot be chosen one by one."""

    model_config = ConfigDict(frozen=True)

    normalize: bool = True


class KokoroMembers(BaseModel):
    """Members of a speech request that only Kokoro-FastAPI knows. Null means the default."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    lang_code: Text | None = Field(None, description="A letter or a code: 'a' is 'en-us'.")
    volume_multiplier: float = Field(1.0, ge=0, le=MAX_VOLUME)
    normalization_options: NormalizationOptions | None = None
    allow_voice_tags: bool = Field(True, description="false: tags are spoken as they are written.")
    return_download_link: bool = False
    return_timing: bool = False
    ssml: bool = False
    voice_aliases: dict[str, Any] | None = None

    @model_validator(mode="before")
    @classmethod
    def _nulls_mean_defaults(cls, members: Any) -> Any:
        return {name: value for name, value in members.items() if value is not None}

    @field_validator("return_download_link", "return_timing", "ssml", "voice_aliases")
    @classmethod
    def _not_here(cls, value: Any, info: ValidationInfo) -> Any:
        if value:
            raise InvalidRequestError(
                f"'{info.field_name}' is not supported here.",
                param=info.field_name,
                code="not_supported",
            )
        return value

    @classmethod
    def of(cls, members: Mapping[str, Any]) -> "KokoroMembers":
        """Pick them out of a request's further members.

        Raises:
            InvalidRequestError: one is wrong, or cannot be honoured.
        """
        known = {name: value for name, value in members.items() if name in cls.model_fields}
        return validated(cls, known)

    def over(self, request: SpeechRequest, languages: tuple[str, ...]) -> SpeechRequest:
        """Return a request with what these say of it.

        Args:
            request: as its other fields have it.
            languages: that the model knows.

        Raises:
            InvalidRequestError: the model does not know the language.
        """
        if self.normalization_options is not None:
            request = replace(request, normalize=self.normalization_options.normalize)
        request = replace(request, volume=self.volume_multiplier)
        if self.lang_code is None:
            return request
        code = self.lang_code.casefold()
        names = [each for each in (code, *_LANGUAGES.get(code, ())) if each in languages]
        if not names:
            available = ", ".join(languages) or "none, this model decides by itself"
            raise InvalidRequestError(
                f"Invalid 'lang_code': {ascii(self.lang_code)[:60]}. Available: {available}.",
                param="lang_code",
            )
        if request.language is not None:
            raise InvalidRequestError(
                "'language' and 'lang_code' are mutually exclusive.", param="lang_code"
            )
        return replace(request, language=names[0])


@dataclass(frozen=True, slots=True)
class Turn:
    """A part of a text that tags stand around.

    Attributes:
        text: without tags for voices and rates; pauses are still in it.
        voice: who speaks; ``None`` if no tag says it.
        rate: a factor of the speed.
    """

    text: str
    voice: str | None
    rate: float


def split_turns(text: str) -> list[Turn]:
    """Split a text at ``[voice:NAME]`` and ``[rate:1.2]``; a backslash before one makes it text.

    A voice's tag sets the rate back to 1. Parts with nothing to say join the part before, or the
    one after, so that their pauses are heard.

    Raises:
        InvalidRequestError: a tag is wrong, or there are too many.
    """
    turns: list[Turn] = []
    for turn in _parts(text):
        if turns and (not _speaks(turn.text) or not _speaks(turns[-1].text)):
            last = turns.pop()
            said = turn if not _speaks(last.text) else last
            turn = replace(said, text=last.text + turn.text)
        turns.append(turn)
    return turns


def _parts(text: str) -> Iterator[Turn]:
    written: list[str] = []
    voice, rate, start, has_tag_before = None, 1.0, 0, False
    for number, tag in enumerate(_TAG.finditer(text)):
        written.append(text[start : tag.start()])
        start = tag.end()
        if tag[1]:
            written.append(tag[0][1:])
            continue
        if number >= MAX_TAGS:
            raise _wrong(f"it has more than {MAX_TAGS} tags")
        yield Turn(_between("".join(written).rstrip(), has_tag_before), voice, rate)
        written, has_tag_before = [], True
        value = tag[3].strip()
        if tag[2].lower() == "rate":
            rate = _rate(tag[0], value)
        elif value:
            voice, rate = value, 1.0
        else:
            raise _wrong(f"{tag[0]} names no voice")
    yield Turn(_between("".join([*written, text[start:]]), has_tag_before), voice, rate)


def _between(text: str, has_tag_before: bool) -> str:
    """Return a part without the spaces that only keep it from a tag."""
    return text.lstrip() if has_tag_before else text


def _rate(tag: str, value: str) -> float:
    if not _RATE.fullmatch(value) or not MIN_SPEED <= float(value) <= MAX_SPEED:
        raise _wrong(
            f"{tag[:40]!a} is no rate: write [rate:{MIN_SPEED}] to [rate:{MAX_SPEED:g}], or"
            " \\[rate:...] for the text itself"
        )
    return float(value)


def _speaks(text: str) -> bool:
    """Whether there is more in a text than pauses."""
    return any(isinstance(piece, str) and piece.strip() for piece in split_pauses(text))


def _wrong(reason: str) -> InvalidRequestError:
    return InvalidRequestError(f"Invalid 'input': {reason}.", param="input")
