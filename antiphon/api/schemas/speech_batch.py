"""The body and the answer of a batch: many texts, and what they have in common."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from antiphon.api.errors import validated
from antiphon.api.schemas.error import ErrorBody
from antiphon.api.schemas.speech import SpeechBody
from antiphon.contracts.well_formed import StrictModel

_DELIVERY = ("stream", "stream_format")
_ANY_TEXT = "."


class SpeechBatchBody(StrictModel):
    """Items, and beside them the fields of a speech request that hold for all of them."""

    model_config = ConfigDict(extra="allow")

    items: Annotated[list[dict[str, Any]], Field(min_length=1)] = Field(
        description="Speech requests; fields of an item override those beside the items.",
        examples=[[{"input": "Hello."}, {"input": "Good night.", "seed": 2}]],
    )

    @classmethod
    def checked_members(cls, members: Mapping[str, Any]) -> Mapping[str, Any]:
        """Leave out the items: each is checked by itself, and fails alone."""
        return {name: value for name, value in members.items() if name != "items"}

    @property
    def shared(self) -> SpeechBody:
        """What the items have in common, as a request of its own; raises InvalidRequestError.

        A member that every item has itself is not in it: it has no effect.
        """
        given = [set(_given(item)) for item in self.items]
        overridden = set.intersection(*given)
        fields = {
            name: value
            for name, value in (self.model_extra or {}).items()
            if name not in (*overridden, *_DELIVERY, "input")
        }
        return validated(SpeechBody, {**fields, "input": _ANY_TEXT})

    def item(self, index: int) -> SpeechBody:
        """Return one of the requests; raises InvalidRequestError if it is wrong."""
        fields = {**(self.model_extra or {}), **_given(self.items[index])}
        for name in _DELIVERY:
            fields.pop(name, None)
        return validated(SpeechBody, fields)


class SpeechBatchUsage(BaseModel):
    """What an item cost."""

    model_config = ConfigDict(from_attributes=True)

    input_tokens: int
    output_tokens: int
    total_tokens: int


class SpeechBatchResult(BaseModel):
    """What became of an item."""

    index: int
    status: Literal["success", "error"]
    audio_data: str | None = Field(None, description="The file, in base64.")
    media_type: str | None = None
    sample_rate: int | None = None
    finish_reason: str | None = None
    usage: SpeechBatchUsage | None = None
    timestamps: list[dict[str, Any]] | None = Field(
        None, description="When each word is spoken, if that was asked for."
    )
    unspoken: list[str] | None = Field(
        None, description="What the voice has left out of the text, if anything."
    )
    error: str | None = Field(None, description="What was wrong, for people.")
    error_details: ErrorBody | None = Field(None, description="The same, for programs.")


class SpeechBatchAnswer(BaseModel):
    """What became of all items, in their order."""

    id: str
    results: list[SpeechBatchResult]
    total: int
    succeeded: int
    failed: int


def _given(item: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out nulls: they mean the default, here that of the batch."""
    return {name: value for name, value in item.items() if value is not None}
