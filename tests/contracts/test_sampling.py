"""Sampling parameters out of range are refused in one wording, by the parameter's name."""

from dataclasses import fields
from typing import Annotated, Any

import pytest

from antiphon.api.errors import validated
from antiphon.api.schemas.speech import SpeechBody
from antiphon.contracts.chat_types import ChatSampling
from antiphon.contracts.sampling import (
    PARAMETERS,
    TEMPERATURE,
    TOP_P,
    Parameter,
    SamplingRanges,
    check_ranges,
    names_of,
)
from antiphon.contracts.types import Sampling
from antiphon.contracts.well_formed import StrictModel, read_options
from antiphon.errors import InvalidRequestError

RANGES = SamplingRanges(max_new_tokens=4096)
TEMPERATURES = "Must be 0, or from 1e-06 to 100."
TOP_K = "Must be from 0 to 2147483647."
PENALTIES = "Must be from 1e-06 to 100."
TOKENS = "Must be from 1 to 4096, which is all that the model's context holds."
REFUSED = [
    ("temperature", -1.0, f": -1.0. {TEMPERATURES}"),
    ("temperature", float("nan"), f": nan. {TEMPERATURES}"),
    ("temperature", 1e-38, f": 1e-38. {TEMPERATURES}"),
    ("temperature", 1e300, f": 1e+300. {TEMPERATURES}"),
    ("top_p", 1.4, ": 1.4. Must be above 0 and at most 1."),
    ("top_p", 0.0, ": 0.0. Must be above 0 and at most 1."),
    ("top_k", -1, f": -1. {TOP_K}"),
    ("top_k", 2**31, f": 2147483648. {TOP_K}"),
    ("top_k", 2**70, f": more than 64 bits. {TOP_K}"),
    ("repetition_penalty", 0.0, f": 0.0. {PENALTIES}"),
    ("repetition_penalty", 1e-39, f": 1e-39. {PENALTIES}"),
    ("repetition_penalty", 1e300, f": 1e+300. {PENALTIES}"),
    ("max_frames", 0, f": 0. {TOKENS}"),
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


def test_every_number_of_a_request_is_declared() -> None:
    """A field without a range would be honoured whatever its value."""
    others = {"do_sample", "max_frames", "min_frames", "ignore_eos", "logit_bias"}
    for declared in (Sampling, ChatSampling):
        assert {*names_of(declared)} == {each.name for each in fields(declared)} - others


@pytest.mark.parametrize("parameter", PARAMETERS, ids=lambda parameter: parameter.name)
def test_schemas_chats_and_models_refuse_in_one_wording(parameter: Parameter) -> None:
    name: Any = parameter.name
    wrong: Any = parameter.neutral + parameter.range.high + 1000
    message = f"Invalid '{name}': {wrong}. Must be {parameter.range}."
    with pytest.raises(InvalidRequestError) as caught:
        check_ranges(ChatSampling(**{name: wrong}))
    assert caught.value.message == message
    if name not in names_of(Sampling):
        return
    with pytest.raises(InvalidRequestError) as caught:
        validated(SpeechBody, {"input": "Hi.", name: wrong})
    assert (caught.value.message, caught.value.param) == (message, name)
    if parameter.computable is None:
        with pytest.raises(InvalidRequestError) as caught:
            RANGES.check(Sampling(**{name: wrong}))
        assert caught.value.message == message


def test_options_of_families_have_the_wording_too() -> None:
    class Options(StrictModel):
        share: Annotated[float, TOP_P.range] | None = None
        heat: Annotated[float, TEMPERATURE.computable] | None = None

    with pytest.raises(InvalidRequestError) as caught:
        read_options(Options, {"share": 1.4})
    assert caught.value.message == "Invalid 'share': 1.4. Must be above 0 and at most 1."
    assert read_options(Options, {"share": 1, "heat": 0}).heat == 0
    properties = Options.model_json_schema()["properties"]
    assert properties["share"]["anyOf"][0] == {
        "type": "number",
        "exclusiveMinimum": 0,
        "maximum": 1,
    }
    assert properties["heat"]["anyOf"][0] == {"type": "number", "minimum": 0, "maximum": 100.0}
