"""Requests that lose their place when the cache is full sound as if they had it to themselves."""

import asyncio

import numpy as np
import pytest

from antiphon.config import ModelSettings, SpeechSettings
from antiphon.contracts.types import SpeechRequest
from antiphon.offline import Audio, collect
from antiphon.pipeline.speech.model import SpeechModel
from antiphon.pipeline.speech.service import Speech
from tests import paged
from tests.loops import on_a_loop

TEXTS = [f"{name} has a word to say" for name in ("Ada", "Ben", "Cleo", "Dan", "Eve", "Fay")]


@pytest.fixture(autouse=True)
def _paged(monkeypatch: pytest.MonkeyPatch) -> None:
    paged.register(monkeypatch)
    paged.RESUMED.clear()


@on_a_loop
async def spoken(source: str, *, is_live: bool) -> list[Audio]:
    settings = ModelSettings(source=source, device="cpu", max_slots=8)
    model = await SpeechModel.load(settings)
    speech = Speech({model.name: model}, SpeechSettings())
    try:
        requests = [
            SpeechRequest(text, seed=number, is_live=is_live) for number, text in enumerate(TEXTS)
        ]
        return await asyncio.gather(*(collect(speech.stream(each)) for each in requests))
    finally:
        speech.close()
        await model.close()


@pytest.mark.parametrize("is_live", [True, False], ids=["live", "whole"])
def test_preempted_and_resumed_equals_undisturbed(is_live: bool) -> None:
    heard = spoken("paged", is_live=is_live)
    assert paged.RESUMED, "there was room for all, so this has tested nothing"
    for one, other in zip(heard, spoken("toy", is_live=is_live), strict=True):
        np.testing.assert_array_equal(one.samples, other.samples)
        assert (one.usage, one.finish_reason) == (other.usage, other.finish_reason)
