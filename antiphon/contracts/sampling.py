"""Sampling parameters: name, range, neutral value and device column of each, declared once.

The fields of `Sampling` and `ChatSampling` have these names. Request schemas, checks and device
tables derive from the declarations.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Self

from pydantic_core import CoreSchema, PydanticCustomError
from pydantic_core.core_schema import no_info_after_validator_function

from antiphon.errors import invalid

if TYPE_CHECKING:  # so that importing the vocabulary stays quick
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler

MIN_FACTOR, MAX_FACTOR = 1e-6, 100.0
"""Bounds of temperatures and penalties: float32 divides logits by these without overflow."""
MAX_INT32 = 2**31 - 1
NEVER = MAX_INT32
"""Number of a frame that no request makes."""
_MAX_INT64 = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Range:
    """Allowed values of a number, also as the annotation of a pydantic field.

    Attributes:
        low: smallest value, or the bound that it must be above.
        is_above: whether ``low`` itself is excluded.
        or_zero: whether 0 is allowed, too.
        note: reason, which follows the range in the refusal.
    """

    low: float
    high: float
    is_above: bool = False
    or_zero: bool = False
    note: str = ""

    def check(self, param: str, value: float) -> None:
        """Refuse a value outside the range; raises InvalidRequestError."""
        if value not in self:
            raise invalid(param, self._fault(value))

    def __contains__(self, value: float) -> bool:
        is_within = self.low < value if self.is_above else self.low <= value
        return (is_within and value <= self.high) or (self.or_zero and value == 0)

    def __str__(self) -> str:
        low, high = _shown(self.low), _shown(self.high)
        if low == high:
            return low
        if self.is_above:
            return f"above {low} and at most {high}"
        return f"{'0, or ' if self.or_zero else ''}from {low} to {high}"

    def __get_pydantic_core_schema__(
        self, source: Any, handler: "GetCoreSchemaHandler"
    ) -> CoreSchema:
        return no_info_after_validator_function(self._validated, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: "GetJsonSchemaHandler"
    ) -> dict[str, Any]:
        low = "exclusiveMinimum" if self.is_above else "minimum"
        return {**handler(schema), low: 0 if self.or_zero else self.low, "maximum": self.high}

    def _validated(self, value: float) -> float:
        if value not in self:
            raise PydanticCustomError("range", "{fault}", {"fault": self._fault(value)})
        return value

    def _fault(self, value: float) -> str:
        # An integer may have too many digits to be written out.
        is_long = isinstance(value, int) and abs(value) > _MAX_INT64
        shown = "more than 64 bits" if is_long else value
        return f"{shown}. Must be {self}{self.note}"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A sampling parameter.

    Attributes:
        neutral: value that changes nothing.
        range: values that requests may have.
        computable: values that models compute with, if these are more; for requests from Python.
    """

    name: str
    neutral: float
    range: Range
    computable: Range | None = None


TEMPERATURE = Parameter(
    "temperature", 1.0, Range(0, 2), Range(MIN_FACTOR, MAX_FACTOR, or_zero=True)
)
TOP_K = Parameter("top_k", 0, Range(0, MAX_INT32))
TOP_P = Parameter("top_p", 1.0, Range(0, 1, is_above=True))
REPETITION_PENALTY = Parameter(
    "repetition_penalty", 1.0, Range(0.01, 10), Range(MIN_FACTOR, MAX_FACTOR)
)
MIN_P = Parameter("min_p", 0.0, Range(0, 1))
PRESENCE_PENALTY = Parameter("presence_penalty", 0.0, Range(-2, 2))
FREQUENCY_PENALTY = Parameter("frequency_penalty", 0.0, Range(-2, 2))
PARAMETERS = (
    *(TEMPERATURE, TOP_K, TOP_P, REPETITION_PENALTY),
    *(MIN_P, PRESENCE_PENALTY, FREQUENCY_PENALTY),
)
"""All parameters, in the order of their columns on the device, which kernels read by number."""
NUM_COLUMNS = 8
"""Columns of a device table; the last one is left to the sampler."""
NEW_TOKENS = Range(1, MAX_INT32)
"""Limits of tokens; see `max_frames_of`."""
_NO_PENALTY = Range(1, 1, note=", or left out: this model has no repetition penalty")


@dataclass(frozen=True, slots=True)
class Overrides:
    """Base of parameters of requests, of which each is ``None`` if it is left out."""

    def with_defaults(self, defaults: Self) -> Self:
        """Return these parameters, and ``defaults`` where they are ``None``."""
        pairs = ((field.name, getattr(self, field.name)) for field in fields(self))
        given = {name: value for name, value in pairs if value is not None}
        return replace(defaults, **given)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling(Overrides):
    """How an autoregressive stage draws codes. ``None`` means the family's default.

    Attributes:
        do_sample: ``False`` takes the likeliest code; families read it as a temperature of 0.
        min_frames: frames before which the end is not drawn.
        ignore_eos: whether the end is never drawn, so that only a limit ends the request.
    """

    do_sample: bool | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    repetition_penalty: float | None = None
    max_frames: int | None = None
    min_frames: int | None = None
    ignore_eos: bool | None = None

    @property
    def first_end(self) -> int:
        """Frames before which the end is not drawn; `NEVER` if it is ignored."""
        return NEVER if self.ignore_eos else self.min_frames or 0

    @property
    def least_frames(self) -> int:
        """Frames that the request makes at least, whatever its text."""
        return (self.max_frames if self.ignore_eos else self.min_frames) or 0

    def with_min_frames(self, least: int) -> "Sampling":
        """Return these parameters with a minimum of frames that the family sets."""
        return replace(self, min_frames=max(self.min_frames or 0, least))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatSampling(Overrides):
    """How tokens are drawn; ``None`` means the checkpoint's default.

    Attributes:
        temperature: 0 takes the most likely token.
        top_k: 0: all tokens.
        presence_penalty: taken off the logit of each token that the answer has already.
        frequency_penalty: The same, multiplied by the number of occurrences.
        repetition_penalty: divides positive logits of tokens of prompt and answer, and multiplies
            negative ones.
        logit_bias: added to the logits of tokens, by id.
    """

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    logit_bias: Mapping[int, float] | None = None


_NEUTRAL: dict[str, Any] = {parameter.name: parameter.neutral for parameter in PARAMETERS}
_PARAMETERS_OF: dict[type[Any], tuple[Parameter, ...]] = {
    kind: tuple(each for each in PARAMETERS if each.name in {field.name for field in fields(kind)})
    for kind in (Sampling, ChatSampling)
}
NEUTRAL_SAMPLING = ChatSampling(**_NEUTRAL, logit_bias={})
"""The model's own distribution, every field set."""


def max_frames_of(max_new_tokens: int | None) -> int | None:
    """Return how many frames a limit of tokens leaves room for.

    As elsewhere, the token that ends speech is one of them, and a frame is never made of the last;
    but there is a frame at least.
    """
    return None if max_new_tokens is None else max(max_new_tokens - 1, 1)


def names_of(declared: type[Sampling] | type[ChatSampling]) -> tuple[str, ...]:
    """Return the names of the parameters that requests of this kind have."""
    return tuple(parameter.name for parameter in _PARAMETERS_OF[declared])


def check_ranges(sampling: Sampling | ChatSampling) -> None:
    """Refuse a parameter out of range; raises InvalidRequestError, which names it."""
    for parameter, value in _given(sampling):
        parameter.range.check(parameter.name, value)


def device_values(sampling: Sampling | ChatSampling) -> dict[str, float]:
    """Return the value of each parameter on the device, in the order of columns.

    Parameters left out are neutral, and temperatures below `MIN_FACTOR` 0.
    """
    values = _NEUTRAL | {parameter.name: value for parameter, value in _given(sampling)}
    values["temperature"] = drawn_temperature(values["temperature"])
    return values


def drawn_temperature(temperature: float) -> float:
    """Return a temperature, or 0, which takes the likeliest token, if it is too low to divide."""
    return temperature if temperature >= MIN_FACTOR else 0.0


def check_lengths(sampling: Sampling, *, is_drawn: bool) -> None:
    """Refuse impossible limits, or a minimum if no end ``is_drawn``; raises InvalidRequestError."""
    least, most = sampling.min_frames or 0, sampling.max_frames
    NEW_TOKENS.check("max_new_tokens", 1 if most is None else most)
    Range(0, NEVER if most is None else most + 1).check("min_tokens", least)
    if not is_drawn and (least or sampling.ignore_eos):
        param, value, off = ("min_tokens", least, 0) if least else ("ignore_eos", "true", "false")
        why = "this model draws no end of speech that could be put off"
        raise invalid(param, f"{value}. Must be {off}: {why}")


@dataclass(frozen=True, slots=True)
class SamplingRanges:
    """Sampling parameters that a model accepts.

    Attributes:
        takes_penalty: whether there may be a repetition penalty other than 1.
        max_new_tokens: largest limit of tokens; ``None``: any.
    """

    takes_penalty: bool = True
    max_new_tokens: int | None = None

    def check(self, sampling: Sampling) -> None:
        """Refuse a value out of range; raises InvalidRequestError, which names the parameter."""
        for parameter, value in _given(sampling):
            has_none = parameter is REPETITION_PENALTY and not self.takes_penalty
            allowed = _NO_PENALTY if has_none else parameter.computable or parameter.range
            allowed.check(parameter.name, value)
        frames, most = sampling.max_frames, self.max_new_tokens
        if frames is not None and most is not None:
            allowed = Range(1, most, note=", which is all that the model's context holds")
            allowed.check("max_new_tokens", frames + 1 if frames > 0 else frames)


def _given(sampling: Sampling | ChatSampling) -> Iterator[tuple[Parameter, float]]:
    pairs = ((each, getattr(sampling, each.name)) for each in _PARAMETERS_OF[type(sampling)])
    return (pair for pair in pairs if pair[1] is not None)


def _shown(bound: float) -> str:
    return str(bound) if isinstance(bound, int) else f"{bound:g}"
