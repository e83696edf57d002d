"""The body of a speech request: OpenAI's fields, those of its peers, and nulls for defaults."""

from collections.abc import Mapping
from enum import StrEnum, auto
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError

from antiphon.audio.encode import AudioFormat
from antiphon.errors import InvalidRequestError
from antiphon.pipeline.speech import MAX_SAMPLE_RATE_HZ, MAX_SPEED, MIN_SAMPLE_RATE_HZ, MIN_SPEED
from antiphon.types import MIN_NEW_TOKENS, Sampling, SpeechRequest, max_frames_of

_MAX_INT32 = 2**31 - 1
_MAX_INT64 = 2**63 - 1


class Delivery(StrEnum):
    """How the audio travels."""

    RAW = auto()  # the file's bytes as they are made
    EVENTS = auto()  # server-sent events, each with a piece of the file
    WHOLE = auto()  # one file of known length


def _valid_unicode(text: str) -> str:
    """Refuse half a surrogate pair, which JSON can say and no encoding can."""
    try:
        if not text.isascii():  # which is known without a look at a text of megabytes
            text.encode()
    except UnicodeEncodeError as error:
        raise PydanticCustomError("string_unicode", "not valid Unicode") from error
    return text


def _voice_name(value: Any) -> Any:
    """Accept OpenAI's ``{"id": "..."}`` beside a plain name."""
    if isinstance(value, Mapping):
        if "id" not in value:
            raise PydanticCustomError("voice_type", "it must be a string or an object with an 'id'")
        return value["id"]
    return value


Text = Annotated[str, AfterValidator(_valid_unicode)]
VoiceName = Annotated[
    Text,
    BeforeValidator(_voice_name),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string"},
                {
                    "type": "object",
                    "properties": {"id": {"type": "string"}},
                    "required": ["id"],
                },
            ]
        }
    ),
]


class SpeechBody(BaseModel):
    """Text and how to speak it. Null means the default.

    Further members are kept: some are options of the model's family, the others are ignored.
    """

    model_config = ConfigDict(
        frozen=True, populate_by_name=True, allow_inf_nan=False, extra="allow"
    )

    input: Text = Field(description="The text to speak.", examples=["Hello there."])
    model: Text | None = Field(None, description="A served model or an alias of one.")
    voice: VoiceName | None = Field(
        None,
        validation_alias=AliasChoices("voice", "speaker"),
        description="A voice's id or an alias of one; default: the model's first voice.",
    )
    instructions: Text | None = Field(None, description="How to speak, for models that listen.")
    response_format: AudioFormat = Field(AudioFormat.MP3, description="The format of the file.")
    speed: float = Field(1.0, ge=MIN_SPEED, le=MAX_SPEED, description="Pitch is kept.")
    stream: bool | None = Field(
        None, description="true: events, unless stream_format says otherwise; false: a whole file."
    )
    stream_format: Literal["audio", "sse"] | None = Field(
        None, description="audio (the default): raw bytes; sse: server-sent events."
    )
    sample_rate: int | None = Field(
        None,
        ge=MIN_SAMPLE_RATE_HZ,
        le=MAX_SAMPLE_RATE_HZ,
        description="Of the result, in Hz; default: the model's own.",
    )
    language: Text | None = Field(None, description="'auto' lets the model decide.")
    seed: int | None = Field(
        None, ge=-_MAX_INT64 - 1, le=_MAX_INT64, description="The same seed gives the same audio."
    )
    temperature: float | None = Field(None, ge=0, le=2)
    top_k: int | None = Field(None, ge=0, le=_MAX_INT32, description="0 keeps all.")
    top_p: float | None = Field(None, gt=0, le=1)
    repetition_penalty: float | None = Field(None, gt=0, le=10)
    max_new_tokens: int | None = Field(
        None,
        ge=MIN_NEW_TOKENS,
        le=_MAX_INT32,
        description="One more than the most frames that a segment of text may take: the token that"
        " ends speech counts.",
    )
    pronunciations: dict[Text, Text] | None = Field(
        None, description="What is read instead of words.", examples=[{"SQL": "sequel"}]
    )
    normalize: bool = Field(
        False, description="Write numbers, dates, money and units out in English words first."
    )
    word_timestamps: bool = Field(
        False, description="Tell when each word is spoken; not with stream_format: audio."
    )

    @model_validator(mode="before")
    @classmethod
    def _nulls_mean_defaults(cls, body: Any) -> Any:
        if not isinstance(body, Mapping):
            return body
        return {name: value for name, value in body.items() if value is not None}

    @model_validator(mode="after")
    def _checked(self) -> Self:
        if not self.input.strip():
            raise InvalidRequestError("Input text cannot be empty.", param="input")
        if self.stream is False and self.stream_format == "sse":
            raise InvalidRequestError(
                "Invalid 'stream': false contradicts 'stream_format': 'sse'."
                " Leave one of the two out.",
                param="stream",
            )
        is_raw = self.stream_format == "audio" and self.stream is not False
        if self.word_timestamps and is_raw:
            raise InvalidRequestError(
                "Invalid 'word_timestamps': bytes that are streamed have no room for them. Ask for"
                " 'stream_format': 'sse', or for a whole file with 'stream': false.",
                param="word_timestamps",
            )
        return self

    @property
    def delivery(self) -> Delivery:
        if self.stream_format == "sse" or (self.stream and self.stream_format is None):
            return Delivery.EVENTS
        is_whole = self.stream is False or self.word_timestamps
        return Delivery.WHOLE if is_whole else Delivery.RAW

    def to_domain(self, request_id: str) -> SpeechRequest:
        """Return what is to be spoken; how it travels is the API's own affair.

        Args:
            request_id: must be unique: the engine tells requests apart by it.
        """
        is_auto = self.language is None or self.language.strip().casefold() in ("", "auto")
        return SpeechRequest(
            input=self.input,
            voice=self.voice,
            model=self.model,
            language=None if is_auto else self.language,
            instructions=self.instructions,
            speed=self.speed,
            sample_rate_hz=self.sample_rate,
            # Families may count on seeds that are not negative; clients may send any int64.
            seed=None if self.seed is None else self.seed & _MAX_INT64,
            sampling=Sampling(
                temperature=self.temperature,
                top_k=self.top_k,
                top_p=self.top_p,
                repetition_penalty=self.repetition_penalty,
                max_frames=max_frames_of(self.max_new_tokens),
            ),
            is_live=self.delivery is not Delivery.WHOLE,
            pronunciations=self.pronunciations or {},
            normalize=self.normalize,
            word_timestamps=self.word_timestamps,
            id=request_id,
        )
