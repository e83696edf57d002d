"""The rule that all models of requests share."""

from typing import Any

import pytest
from pydantic import Field, ValidationError

from antiphon.contracts.well_formed import StrictModel, check_range
from antiphon.errors import InvalidRequestError

HALF = "\ud800"


class _Inner(StrictModel):
    number: int = 0


class _Body(StrictModel):
    type: str = ""
    integer: int | None = None
    number: float | None = Field(None, ge=-1e300, le=1e300)
    numbers: dict[int, float] | None = None
    inner: _Inner = _Inner()
    list_of_inner: list[_Inner | int] | None = None
    metadata: int = 0
    anything: Any = None
    is_on: bool = False


class _Derived(_Body):
    more: int = 0


def test_numbers_in_their_ranges_and_of_forms_are_taken() -> None:
    body = {"integer": -(2**63), "number": "1e-40", "numbers": {"1": 2}, "inner": {"number": "3"}}
    found = _Derived.model_validate({**body, "more": 4.0, "anything": [None, 1.5], "is_on": True})
    assert (found.integer, found.number, found.numbers) == (-(2**63), 1e-40, {1: 2.0})
    assert (found.inner.number, found.more, found.is_on) == (3, 4, True)


@pytest.mark.parametrize(
    "value", [True, False, 10**400, -(10**400), 2**63, "9" * 400, float("nan")]
)
@pytest.mark.parametrize("place", ["integer", "more", "metadata", "inner", "list_of_inner"])
def test_no_integer_is_a_boolean_or_has_more_than_64_bits(place: str, value: Any) -> None:
    members = {"inner": {"number": value}, "list_of_inner": [{"number": value}]}
    with pytest.raises((ValidationError, InvalidRequestError)):
        _Derived.model_validate({place: members.get(place, value)})


@pytest.mark.parametrize("value", [True, False, 10**400, "1e400", float("inf"), float("nan")])
def test_numbers_are_finite_and_no_booleans(value: Any) -> None:
    for body in ({"number": value}, {"numbers": {"0": value}}):
        with pytest.raises((ValidationError, InvalidRequestError)):
            _Derived.model_validate(body)


@pytest.mark.parametrize(
    "value", [HALF, [HALF], {HALF: 1}, {"a": {"b": [HALF]}}, [float("inf")], {"a": 10**400}]
)
def test_members_that_could_not_be_written_down_are_refused_by_name(value: Any) -> None:
    with pytest.raises(InvalidRequestError, match="Invalid 'anything'") as caught:
        _Derived.model_validate({"anything": value})
    assert caught.value.param == "anything"


@pytest.mark.parametrize("value", [10**400, -(10**400), float("nan"), float("inf"), 1.5])
def test_a_range_refuses_numbers_of_any_size(value: float) -> None:
    with pytest.raises(InvalidRequestError, match=r"Invalid 'steps': .*\. Allowed: 0 to 1\."):
        check_range("steps", value, 0, 1)
    check_range("steps", 1e-40, 0, 1)
