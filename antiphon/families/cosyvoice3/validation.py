"""Refuses sampling parameters that mean nothing to this family."""

from antiphon.contracts.types import Sampling
from antiphon.errors import InvalidRequestError
from antiphon.families.cosyvoice3.bounds import MAX_POSITIONS

_MIN_TEMPERATURE, _MAX_TEMPERATURE = 1e-6, 100.0
_MAX_TOP_K = 2**31 - 1


def check_sampling(sampling: Sampling) -> None:
    """Refuse parameters out of their ranges.

    Raises:
        InvalidRequestError: naming the parameter.
    """
    temperature, top_k, top_p = sampling.temperature, sampling.top_k, sampling.top_p
    penalty, max_frames = sampling.repetition_penalty, sampling.max_frames
    is_hot = temperature is None or _MIN_TEMPERATURE <= temperature <= _MAX_TEMPERATURE
    if not is_hot and temperature != 0:
        allowed = f"0, or from {_MIN_TEMPERATURE:g} to {_MAX_TEMPERATURE:g}"
        raise _out_of_range("temperature", allowed)
    if top_k is not None and not 0 <= top_k <= _MAX_TOP_K:
        raise _out_of_range("top_k", f"from 0, which keeps all, to {_MAX_TOP_K}")
    if top_p is not None and not 0 < top_p <= 1:
        raise _out_of_range("top_p", "above 0 and at most 1")
    if penalty is not None and penalty != 1:
        allowed = "1: repetitions are avoided by drawing anew, not by a penalty"
        raise _out_of_range("repetition_penalty", allowed)
    if max_frames is not None and not 1 <= max_frames < MAX_POSITIONS:
        raise _out_of_range("max_new_tokens", f"from 2 to {MAX_POSITIONS}")


def _out_of_range(param: str, allowed: str) -> InvalidRequestError:
    return InvalidRequestError(f"Invalid '{param}'. It must be {allowed}.", param=param)
