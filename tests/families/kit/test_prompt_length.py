"""A prompt that is too long is refused by the field that makes it so."""

import pytest

from antiphon.errors import InvalidRequestError
from antiphon.families.kit.speech_budget import check_prompt_length


def test_a_prompt_may_be_as_long_as_its_limit_and_no_longer() -> None:
    check_prompt_length(100, 100)
    with pytest.raises(InvalidRequestError, match="takes 101 positions; at most 100") as caught:
        check_prompt_length(101, 100, "ref_audio")
    assert caught.value.param == "ref_audio"
    with pytest.raises(InvalidRequestError, match="'input'"):
        check_prompt_length(101, 100)
