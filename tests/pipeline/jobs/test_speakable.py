"""Jobs are refused for what would be wrong with a request of a listener."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from antiphon.contracts.types import SpeechRequest
from antiphon.errors import InvalidRequestError, MemoryFullError, UnspeakableTextError
from antiphon.pipeline.jobs.speakable import check_speakable
from tests.speeches import loaded


async def without_options() -> Mapping[str, Any]:
    return {}


async def test_a_job_whose_prompt_cannot_be_built_is_refused(
    checkpoint: Callable[..., Path],
) -> None:
    async with loaded(str(checkpoint("tiny", "base"))) as speech:
        turns = [SpeechRequest("[pause:1s]"), SpeechRequest("Hello there.")]
        with pytest.raises(InvalidRequestError) as refused:
            await check_speakable(speech, turns, without_options, "chapters")
        assert refused.value.param == "ref_audio"


async def test_a_job_waits_for_what_a_listener_would_be_refused_for() -> None:
    async def load() -> Mapping[str, Any]:
        raise MemoryFullError("There is no memory for the recording.")

    async with loaded("toy") as speech:
        await check_speakable(speech, [SpeechRequest("Hello.")], load, "input")


async def test_words_are_looked_for_in_the_beginning_of_a_job() -> None:
    async with loaded("hibari") as speech:
        nothing = SpeechRequest("\U0001f389 " * 10)
        for turns in ([nothing, SpeechRequest("Hello.")], [SpeechRequest(nothing.input * 2000)]):
            await check_speakable(speech, turns, without_options, "chapters")
        with pytest.raises(UnspeakableTextError) as refused:
            await check_speakable(speech, [nothing] * 2, without_options, "chapters")
        assert refused.value.param == "chapters"
