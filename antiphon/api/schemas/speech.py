"""The body of a speech request: OpenAI's fields, those of its peers, and nulls for defaults."""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    AliasChoices,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError

from antiphon.api.delivery import Delivery, StreamMeaning, accepted_delivery, accepts_any_bytes
from antiphon.api.schemas.field_rules import field_classes
from antiphon.api.schemas.nullable import NULLS_MEAN_DEFAULTS
from antiphon.api.schemas.peer_fields import (
    BYTE_CLIENT_FIELDS,
    EVENT_CLIENT_FIELDS,
    SpeechPeerFields,
)
from antiphon.audio.stretch import MAX_SPEED, MIN_SPEED
from antiphon.config import MAX_LUFS, MIN_LUFS, PEER_MODELS
from antiphon.contracts.sampling import (
    MAX_INT32,
    NEW_TOKENS,
    REPETITION_PENALTY,
    TEMPERATURE,
    TOP_K,
    TOP_P,
    Range,
    Sampling,
    max_frames_of,
    names_of,
)
from antiphon.contracts.types import SpeechRequest
from antiphon.contracts.well_formed import is_encodable
from antiphon.errors import InvalidRequestError, invalid, shortened
from antiphon.formats import AudioFormat
from antiphon.pipeline.speech.model import is_prefixed_voice
from antiphon.pipeline.speech.service import MAX_SAMPLE_RATE_HZ, MIN_SAMPLE_RATE_HZ

_MAX_INT64 = 2**63 - 1
_EXTRA = "extra_params"
_OBJECTS = ("pronunciations", _EXTRA)
_DRAWING = {"do_sample", "ignore_eos", *names_of(Sampling)}
_SAMPLING = {"max_new_tokens", "min_tokens", "seed", *_DRAWING}


def _loudness(value: Any) -> Any:
    """Refuse what is neither a loudness nor "off" with one message for both."""
    try:
        number = None if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = None
    if value == "off":
        return value
    if number is None or not MIN_LUFS <= number <= MAX_LUFS:
        raise PydanticCustomError(
            "loudness", f"it must be a number from {MIN_LUFS:g} to {MAX_LUFS:g}, or 'off'"
        )
    return number


def _valid_unicode(text: str) -> str:
    """Refuse half a surrogate pair, which JSON can contain and no encoding can."""
    if not is_encodable(text):
        raise PydanticCustomError("string_unicode", "not valid Unicode")
    return text


def _voice_name(value: Any) -> Any:
    """Accept OpenAI's ``{"id": "..."}`` beside a plain name."""
    if isinstance(value, Mapping):
        if "id" not in value:
            raise PydanticCustomError("voice_type", "it must be a string or an object with an 'id'")
        for name in value:
            if name != "id":
                context = {"member": shortened(str(name)), "hint": "Known fields: id."}
                raise PydanticCustomError("unknown_field", "{hint}", context)
        return value["id"]
    return value


Speed = Annotated[float, Field(ge=MIN_SPEED, le=MAX_SPEED, allow_inf_nan=False)]
SampleRate = Annotated[int, Field(ge=MIN_SAMPLE_RATE_HZ, le=MAX_SAMPLE_RATE_HZ)]
Text = Annotated[str, AfterValidator(_valid_unicode)]
_LUFS = {"type": "number", "minimum": MIN_LUFS, "maximum": MAX_LUFS}
_OFF = {"const": "off", "type": "string"}
Loudness = Annotated[
    float | Literal["off"], BeforeValidator(_loudness), WithJsonSchema({"anyOf": [_LUFS, _OFF]})
]
_NAME = {"type": "string"}
_WITH_ID = {"type": "object", "properties": {"id": _NAME}, "required": ["id"]}
VoiceName = Annotated[
    Text, BeforeValidator(_voice_name), WithJsonSchema({"anyOf": [_NAME, _WITH_ID]})
]


class SpeechBody(SpeechPeerFields):
    """Text and how to speak it. Null means the default.

    Further members are kept: options of the model's family, and unknown ones, which a response
    header lists.
    """

    model_config = ConfigDict(
        populate_by_name=True, extra="allow", json_schema_extra=NULLS_MEAN_DEFAULTS
    )

    input: Text = Field(
        description="The text to speak.",
        examples=["Hello there."],
        json_schema_extra={"minLength": 1},
    )
    model: Text | None = Field(None, description="A served model or an alias of one.")
    voice: VoiceName | None = Field(
        None,
        validation_alias=AliasChoices("voice", "speaker"),
        description="A voice's id or an alias of one; default: the model's first voice.",
    )
    instructions: Text | None = Field(None, description="How to speak, for models that listen.")
    response_format: AudioFormat = Field(AudioFormat.MP3, description="The format of the file.")
    speed: Speed = Field(1.0, description="Pitch is kept.")
    stream: bool | None = Field(
        None,
        description="true: as it is made, in the way that stream_format, the Accept header or the"
        " server's settings choose; false: a whole file.",
    )
    stream_format: Literal["audio", "sse"] | None = Field(
        None, description="audio (the default): raw bytes; sse: server-sent events."
    )
    sample_rate: SampleRate | None = Field(
        None, description="Of the result, in Hz; default: the model's own."
    )
    language: Text | None = Field(
        None, description="A BCP 47 tag such as 'en-US', or a name; 'auto' lets the model decide."
    )
    seed: int | None = Field(
        None, ge=-_MAX_INT64 - 1, le=_MAX_INT64, description="The same seed gives the same audio."
    )
    do_sample: bool | None = Field(
        None, description="false: the likeliest code is taken, for models that sample."
    )
    temperature: Annotated[float, TEMPERATURE.range] | None = None
    top_k: Annotated[int, TOP_K.range] | None = Field(None, description="0 keeps all.")
    top_p: Annotated[float, TOP_P.range] | None = None
    repetition_penalty: Annotated[float, REPETITION_PENALTY.range] | None = None
    max_new_tokens: Annotated[int, NEW_TOKENS] | None = Field(
        None,
        description="One more than the most frames that a segment of text may take: the token that"
        " ends speech counts.",
    )
    min_tokens: Annotated[int, Range(0, MAX_INT32)] | None = Field(
        None, description="Frames of each segment of text before which its speech does not end."
    )
    ignore_eos: bool | None = Field(
        None,
        description="true: only max_new_tokens, or the most that a text may take, ends speech.",
    )
    pronunciations: dict[Text, Text] | None = Field(
        None, description="What is read instead of words.", examples=[{"SQL": "sequel"}]
    )
    normalize: bool = Field(
        False, description="Write numbers, dates, money and units out in English words first."
    )
    loudness_lufs: Loudness | None = Field(
        None, description="Loudness of voices of known loudness, or off for the model's own."
    )
    word_timestamps: bool = Field(
        False, description="Return when each word is spoken; not with stream_format: audio."
    )
    extra_params: dict[str, Any] | None = Field(
        None, description="Sampling parameters and options of the model, as if they stood beside."
    )

    @model_validator(mode="before")
    @classmethod
    def _nulls_mean_defaults(cls, body: Any) -> Any:
        if not isinstance(body, Mapping):
            return body
        given = {name: value for name, value in body.items() if value is not None}
        for name in _OBJECTS:
            if isinstance(given.get(name), str):  # of a form, whose fields are all strings
                given[name] = _object(name, given[name])
        return _unpacked(given)

    @model_validator(mode="after")
    def _checked(self) -> Self:
        if not self.input.strip():
            raise InvalidRequestError("Input text cannot be empty.", param="input")
        if self.stream is False and self.stream_format == "sse":
            raise invalid(
                "stream", "false contradicts 'stream_format': 'sse'. Leave one of the two out"
            )
        if self.word_timestamps and self.delivery() is Delivery.RAW:
            raise invalid(
                "word_timestamps",
                "bytes that are streamed have no room for them. Ask for 'stream_format': 'sse', or"
                " for a whole file with 'stream': false",
            )
        return self

    def delivery(
        self, accept: str = "", stream_means: StreamMeaning = "sse", *, streams_bytes: bool = False
    ) -> Delivery:
        """Return how the audio travels.

        Args:
            accept: the request's header of this name.
            stream_means: Meaning of ``"stream": true`` where nothing else decides.
            streams_bytes: whether it means bytes to the clients of the model.
        """
        if self.stream is False:
            return Delivery.WHOLE
        if self.stream_format is not None:
            return Delivery.EVENTS if self.stream_format == "sse" else Delivery.RAW
        if not self.stream:
            return Delivery.WHOLE if self.word_timestamps else Delivery.RAW
        if self.word_timestamps:
            return Delivery.EVENTS
        # What "stream": true means to the client.
        if (accepted := accepted_delivery(accept)) is not None:
            return accepted
        given = self.model_fields_set.union(self.model_extra or ())
        if given & EVENT_CLIENT_FIELDS:
            return Delivery.EVENTS
        if given & BYTE_CLIENT_FIELDS or accepts_any_bytes(accept):
            return Delivery.RAW
        is_peer = (self.model or "").casefold() in PEER_MODELS
        if streams_bytes or is_peer or is_prefixed_voice(self.voice):
            return Delivery.RAW
        return Delivery.EVENTS if stream_means == "sse" else Delivery.RAW

    def in_format(self, default: AudioFormat) -> Self:
        """Return the same request, in the server's default format unless it names one."""
        if "response_format" in self.model_fields_set:
            return self
        return self.model_copy(update={"response_format": default})

    def to_domain(self, request_id: str) -> SpeechRequest:
        """Return what is to be spoken; ``request_id``, the engine's key of it, must be unique."""
        return SpeechRequest(
            input=self.input,
            voice=self.voice,
            model=self.model,
            language=self.language,
            instructions=self.instructions,
            speed=self.speed,
            sample_rate_hz=self.sample_rate,
            # Families may count on seeds that are not negative; clients may send any int64.
            seed=None if self.seed is None else self.seed & _MAX_INT64,
            sampling=Sampling(
                **self.model_dump(include=_DRAWING),
                max_frames=max_frames_of(self.max_new_tokens),
                min_frames=self.min_tokens,
            ),
            is_live=self.delivery() is not Delivery.WHOLE,
            may_wait=self.stream_format is None
            and not self.stream
            and self.response_format is not AudioFormat.PCM,
            pronunciations=self.pronunciations or {},
            normalize=self.normalize,
            loudness_lufs=self.loudness_lufs,
            word_timestamps=self.word_timestamps,
            id=request_id,
        )


def _object(name: str, text: str) -> Any:
    """Read an object that a form has brought as JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        message = f"Invalid '{name}'. It must be an object, as JSON."
        raise InvalidRequestError(message, param=name) from error


def _unpacked(members: dict[str, Any]) -> dict[str, Any]:
    """Put what stands in ``extra_params`` beside it, where all the rest looks for it.

    Raises:
        InvalidRequestError: a member is none of the model's, or is in both places with two values.
    """
    packed = members.get(_EXTRA)
    if not isinstance(packed, Mapping):
        return members
    served = field_classes(SpeechBody)
    for name, value in packed.items():
        param = f"{_EXTRA}.{shortened(name)}"
        if served.get(name) == "served" and name not in _SAMPLING:
            raise invalid(param, f"it must stand beside '{_EXTRA}', not in it")
        if members.get(name, value) != value:
            message = f"'{shortened(name)}' and '{param}' differ: leave one of the two out."
            raise InvalidRequestError(message, param=param)
    return {**{name: value for name, value in packed.items() if value is not None}, **members}
