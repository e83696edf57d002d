"""Sampling that the model's ranges exclude is refused before any work."""

from dataclasses import replace
from typing import Any

import pytest

from antiphon.contracts.sampling import SamplingRanges
from antiphon.contracts.types import Sampling, SpeechRequest
from antiphon.errors import InvalidRequestError
from antiphon.pipeline.speech.service import Speech


async def test_a_request_out_of_range_is_refused_before_a_stream_begins(
    toy: Speech, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompter: Any = toy.model(None).prompter
    ranges = SamplingRanges(takes_penalty=False)
    limited = replace(prompter.capabilities, sampling=ranges)
    monkeypatch.setattr(prompter, "capabilities", limited)
    with pytest.raises(InvalidRequestError, match=r"'repetition_penalty': 1\.5") as caught:
        toy.stream(SpeechRequest("Hi.", sampling=Sampling(repetition_penalty=1.5)))
    assert caught.value.param == "repetition_penalty"
