"""Sampling parameters out of range are refused in one wording, by the parameter's name."""

from typing import Any

import pytest

from antiphon.contracts.sampling_ranges import SamplingRanges
from antiphon.contracts.types import Sampling
from antiphon.errors import InvalidRequestError

RANGES = SamplingRanges(max_new_tokens=4096)
TEMPERATURES = "Must be 0, or from 1e-06 to 100."
TOP_K = "Must be from 0, which keeps all, to 2147483647."
PENALTIES = "Must be from 1e-06 to 100."
TOKENS = "Must be from 1 to 4096, which is all that the model's context holds."
REFUSED = [
    ("temperature", -1.0, f": -1.0. {TEMPERATURES}"),
    ("temperature", float("nan"), f": nan. {TEMPERATURES}"),
    ("temperature", 1e-38, f": 1e-38. {TEMPERATURES}"),
    ("temperature", 1e300, f". {TEMPERATURES}"),
    ("top_p", 1.4, ": 1.4. Must be above 0 and at most 1."),
    ("top_p", 0.0, ": 0.0. Must be above 0 and at most 1."),
    ("top_k", -1, f": -1. {TOP_K}"),
    ("top_k", 2**31, f": 2147483648. {TOP_K}"),
    ("top_k", 2**70, f". {TOP_K}"),
    ("repetition_penalty", 0.0, f": 0.0. {PENALTIES}"),
    ("repetition_penalty", 1e-39, f": 1e-39. {PENALTIES}"),
    ("repetition_penalty", 1e300, f". {PENALTIES}"),
    ("max_frames", 0, f": 1. {TOKENS}"),
    ("max_frames", 4096, f": 4097. {TOKENS}"),
]


@pytest.mark.parametrize(("name", "value", "message"), REFUSED)
def test_a_value_out_of_range_is_refused(name: str, value: Any, message: str) -> None:
    param = "max_new_tokens" if name == "max_frames" else name
    with pytest.raises(InvalidRequestError) as caught:
        RANGES.check(Sampling(**{name: value}))
    assert caught.value.message == f"Invalid '{param}'{message}"
    assert caught.value.param == param


@pytest.mark.parametrize("penalty", [1.1, 0.0, float("nan"), 1e300])
def test_a_model_without_a_penalty_takes_1(penalty: float) -> None:
    ranges = SamplingRanges(takes_penalty=False)
    ranges.check(Sampling(repetition_penalty=1.0))
    with pytest.raises(InvalidRequestError, match="Must be 1, or left out") as caught:
        ranges.check(Sampling(repetition_penalty=penalty))
    assert caught.value.param == "repetition_penalty"


def test_ends_of_ranges_are_accepted() -> None:
    for sampling in (
        Sampling(),
        Sampling(temperature=0.0, top_k=0, top_p=1.0, repetition_penalty=1e-6, max_frames=1),
        Sampling(temperature=100.0, top_k=2**31 - 1, repetition_penalty=100.0, max_frames=4095),
    ):
        RANGES.check(sampling)
    SamplingRanges().check(Sampling(max_frames=2**40))
