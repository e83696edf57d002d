"""Fields of Kokoro-FastAPI's clients beside OpenAI's."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic import Field, model_validator

from antiphon.api.errors import validated
from antiphon.api.schemas.peer_fields import NormalizationOptions
from antiphon.api.schemas.speech import Text
from antiphon.contracts.languages import resolve_language
from antiphon.contracts.types import SpeechRequest
from antiphon.contracts.well_formed import StrictModel
from antiphon.errors import InvalidRequestError
from antiphon.pipeline.speech.service import MAX_VOLUME

_LETTERS: Mapping[str, str] = {
    "a": "en-us",
    "b": "en-gb",
    "e": "es",
    "f": "fr-fr",
    "h": "hi",
    "i": "it",
    "j": "ja",
    "p": "pt-br",
    "z": "zh",
}
"""Kokoro's letters for languages."""


class KokoroMembers(StrictModel):
    """Members of Kokoro-FastAPI that are served. Null means the default."""

    lang_code: Text | None = Field(None, description="A letter or a code: 'a' is 'en-us'.")
    volume_multiplier: float = Field(1.0, ge=0, le=MAX_VOLUME)
    normalization_options: NormalizationOptions | None = None
    allow_voice_tags: bool = Field(True, description="false: tags are spoken as they are written.")

    @model_validator(mode="before")
    @classmethod
    def _nulls_mean_defaults(cls, members: Any) -> Any:
        return {name: value for name, value in members.items() if value is not None}

    @classmethod
    def of(cls, members: Mapping[str, Any]) -> "KokoroMembers":
        """Pick them out of a request's further members; raises InvalidRequestError."""
        known = {name: value for name, value in members.items() if name in cls.model_fields}
        return validated(cls, known)

    def over(self, request: SpeechRequest, languages: tuple[str, ...]) -> SpeechRequest:
        """Return a request with the values of these fields; raises InvalidRequestError."""
        if self.normalization_options is not None:
            request = replace(request, normalize=self.normalization_options.normalize)
        request = replace(request, volume=self.volume_multiplier)
        if self.lang_code is None:
            return request
        tag = _LETTERS.get(self.lang_code.casefold(), self.lang_code)
        language = resolve_language(tag, languages, param="lang_code")
        if request.language is not None:
            raise InvalidRequestError(
                "'language' and 'lang_code' are mutually exclusive.", param="lang_code"
            )
        return replace(request, language=language)
