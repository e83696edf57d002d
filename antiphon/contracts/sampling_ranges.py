"""Ranges of sampling parameters, and the one refusal of values outside."""

from dataclasses import dataclass

from antiphon.contracts.types import MIN_TEMPERATURE, Sampling
from antiphon.errors import InvalidRequestError

MAX_FACTOR = 100.0
"""Temperature and penalty that float32 logits are scaled by without overflow."""
MAX_TOP_K = 2**31 - 1
ALLOWED_TEMPERATURES = f"0, or from {MIN_TEMPERATURE:g} to {MAX_FACTOR:g}"
_MAX_SHOWN = 1e18


def is_temperature(value: float) -> bool:
    """Whether logits can be divided by a temperature; 0 means the likeliest code."""
    return value == 0 or MIN_TEMPERATURE <= value <= MAX_FACTOR


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
        temperature, top_k, top_p = sampling.temperature, sampling.top_k, sampling.top_p
        if temperature is not None and not is_temperature(temperature):
            raise _out_of_range("temperature", temperature, ALLOWED_TEMPERATURES)
        if top_k is not None and not 0 <= top_k <= MAX_TOP_K:
            raise _out_of_range("top_k", top_k, f"from 0, which keeps all, to {MAX_TOP_K}")
        if top_p is not None and not 0 < top_p <= 1:
            raise _out_of_range("top_p", top_p, "above 0 and at most 1")
        self._check_penalty(sampling.repetition_penalty)
        self._check_frames(sampling.max_frames)

    def _check_penalty(self, penalty: float | None) -> None:
        if penalty is None:
            return
        if not self.takes_penalty and penalty != 1:
            allowed = "1, or left out: this model has no repetition penalty"
            raise _out_of_range("repetition_penalty", penalty, allowed)
        if not MIN_TEMPERATURE <= penalty <= MAX_FACTOR:
            allowed = f"from {MIN_TEMPERATURE:g} to {MAX_FACTOR:g}"
            raise _out_of_range("repetition_penalty", penalty, allowed)

    def _check_frames(self, max_frames: int | None) -> None:
        most = self.max_new_tokens
        if max_frames is None or most is None or 1 <= max_frames < most:
            return
        allowed = f"from 1 to {most}, which is all that the model's context holds"
        raise _out_of_range("max_new_tokens", max_frames + 1, allowed)


def _out_of_range(param: str, value: float, allowed: str) -> InvalidRequestError:
    shown = f": {value}" if abs(value) < _MAX_SHOWN or value != value else ""
    return InvalidRequestError(f"Invalid '{param}'{shown}. Must be {allowed}.", param=param)
