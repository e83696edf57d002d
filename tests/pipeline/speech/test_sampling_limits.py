"""Sampling that the model's ranges exclude is refused before any work."""

from dataclasses import replace
from typing import Any

import pytest

from antiphon.contracts.sampling import SamplingRanges
from antiphon.contracts.types import Sampling, SpeechRequest
from antiphon.errors import InvalidRequestError
from antiphon.pipeline.speech.service import Speech
from tests.speeches import KeptSpeech


def test_a_request_out_of_range_is_refused_before_a_stream_begins(
    toy: KeptSpeech, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(speech: Speech) -> None:
        prompter: Any = speech.model(None).prompter
        ranges = SamplingRanges(takes_penalty=False)
        limited = replace(prompter.capabilities, sampling=ranges)
        monkeypatch.setattr(prompter, "capabilities", limited)
        with pytest.raises(InvalidRequestError, match=r"'repetition_penalty': 1\.5") as caught:
            speech.stream(SpeechRequest("Hi.", sampling=Sampling(repetition_penalty=1.5)))
        assert caught.value.param == "repetition_penalty"

    toy.run(body)
