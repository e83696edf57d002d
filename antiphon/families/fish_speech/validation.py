"""Which sampling parameters mean something."""

from antiphon.contracts.types import Sampling
from antiphon.errors import InvalidRequestError
from antiphon.families.fish_speech.config import MAX_POSITIONS

_MIN_FACTOR, _MAX_FACTOR = 1e-6, 100.0
"""Of temperatures: what float32 divides logits by without overflow."""
_MAX_TOP_K = 2**31 - 1


def check_sampling(sampling: Sampling) -> None:
    """Refuse sampling parameters that mean nothing.

    Raises:
        InvalidRequestError: naming the parameter and what is allowed.
    """
    temperature, top_k, top_p = sampling.temperature, sampling.top_k, sampling.top_p
    max_frames = sampling.max_frames
    if temperature is not None and temperature != 0:
        allowed = f"0, or from {_MIN_FACTOR:g} to {_MAX_FACTOR:g}"
        _check("temperature", _MIN_FACTOR <= temperature <= _MAX_FACTOR, allowed)
    if top_k is not None:
        allowed = f"from 0, which keeps all, to {_MAX_TOP_K}"
        _check("top_k", 0 <= top_k <= _MAX_TOP_K, allowed)
    if top_p is not None:
        _check("top_p", 0 < top_p <= 1, "above 0 and at most 1")
    if sampling.repetition_penalty is not None:
        allowed = "1, or left out: this model draws anew what it repeats"
        _check("repetition_penalty", sampling.repetition_penalty == 1, allowed)
    if max_frames is not None:
        allowed = f"from 2 to {MAX_POSITIONS}, which is all that the model's context holds"
        _check("max_new_tokens", 1 <= max_frames < MAX_POSITIONS, allowed)


def _check(param: str, is_allowed: bool, allowed: str) -> None:
    if not is_allowed:
        raise InvalidRequestError(f"Invalid '{param}'. It must be {allowed}.", param=param)
