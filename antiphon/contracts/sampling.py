"""Checks of sampling parameters."""

from antiphon.contracts.types import NEVER, Sampling
from antiphon.contracts.well_formed import check_range
from antiphon.errors import InvalidRequestError


def check_minimum(sampling: Sampling, *, is_drawn: bool) -> None:
    """Refuse an impossible minimum, or any minimum for a model without an end to put off.

    Raises:
        InvalidRequestError: naming the field and what is allowed.
    """
    least, most = sampling.min_frames or 0, sampling.max_frames
    check_range("min_tokens", least, 0, NEVER if most is None else most + 1)
    if not is_drawn and (least or sampling.ignore_eos):
        param, value = ("min_tokens", least) if least else ("ignore_eos", "true")
        raise InvalidRequestError(
            f"Invalid '{param}': {value}. Must be {'0' if least else 'false'}: this model draws"
            " no end of speech that could be put off.",
            param=param,
        )
