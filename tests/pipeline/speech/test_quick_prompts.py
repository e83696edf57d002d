"""A prompt that takes no time is built at once; what takes longer holds up no other stream."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from antiphon.concurrency import num_usable_cores
from antiphon.contracts.types import Sampling, SpeechRequest, Voice
from antiphon.pipeline.speech.service import Speech
from tests.pipeline.speech.text_streams import said
from tests.servers import DEADLINE_S
from tests.speeches import loaded

SAMPLING = Sampling(max_frames=2)
RECORDING = {"ref_audio": np.zeros(24000, np.float32), "x_vector_only_mode": True}
LONG = "A sentence of a longer text. " * 11


@pytest.fixture(scope="module")
async def custom(checkpoint: Callable[..., Path]) -> AsyncGenerator[Speech, None]:
    async with loaded(str(checkpoint("tiny", "custom_voice"))) as speech:
        yield speech


@pytest.fixture(scope="module")
async def base(checkpoint: Callable[..., Path]) -> AsyncGenerator[Speech, None]:
    async with loaded(str(checkpoint("tiny", "base"))) as speech:
        yield speech


async def at_once(
    speech: Speech, monkeypatch: pytest.MonkeyPatch, request: SpeechRequest
) -> set[bool]:
    """Return whether prompts of a request were built in the thread of the event loop."""
    threads: set[bool] = set()
    loop_thread = threading.get_ident()
    prompter: Any = speech.model(None).prompter
    build = prompter.build

    def noted(request: SpeechRequest, voice: Voice, seed: int) -> Any:
        threads.add(threading.get_ident() == loop_thread)
        return build(request, voice, seed)

    with monkeypatch.context() as patched:
        patched.setattr(prompter, "build", noted)
        async for _ in speech.stream(request):
            pass
    return threads


async def test_a_short_text_has_its_prompt_at_once(
    custom: Speech, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = SpeechRequest("Hello.", sampling=SAMPLING)
    assert await at_once(custom, monkeypatch, request) == {True}


@pytest.mark.parametrize(
    "request_of_it",
    [
        SpeechRequest(LONG, sampling=SAMPLING),
        SpeechRequest("Hello.", instructions=LONG, sampling=SAMPLING),
    ],
    ids=["input", "instructions"],
)
async def test_what_is_long_is_left_to_a_thread(
    custom: Speech, monkeypatch: pytest.MonkeyPatch, request_of_it: SpeechRequest
) -> None:
    assert await at_once(custom, monkeypatch, request_of_it) == {False}


async def test_so_is_a_recording(base: Speech, monkeypatch: pytest.MonkeyPatch) -> None:
    request = SpeechRequest("Hello.", sampling=SAMPLING, options=RECORDING)
    assert await at_once(base, monkeypatch, request) == {False}


async def test_recordings_that_come_at_once_wait_for_no_threads(
    base: Speech, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their prompts wait for the encoder, which takes several together."""
    count = num_usable_cores() + 3
    meeting = threading.Barrier(count, timeout=DEADLINE_S)
    prompter: Any = base.model(None).prompter
    build = prompter.build

    def met(*arguments: Any) -> Any:
        meeting.wait()
        return build(*arguments)

    async def fetched() -> Mapping[str, Any]:
        return RECORDING

    async def hear() -> None:
        request = SpeechRequest("Hello.", sampling=SAMPLING)
        async for _ in base.stream(request, load=fetched):
            pass

    with monkeypatch.context() as patched:
        patched.setattr(prompter, "build", met)
        await asyncio.gather(*(hear() for _ in range(count)))


async def test_a_family_that_says_nothing_has_a_thread(
    toy: Speech, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await at_once(toy, monkeypatch, SpeechRequest("Hello.", sampling=SAMPLING)) == {False}


async def test_words_that_arrive_are_read_at_once(
    custom: Speech, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(function: Any, *arguments: object) -> Any:
        raise AssertionError("a thread was asked")

    with monkeypatch.context() as patched:
        patched.setattr(custom._workers, "run", never)
        await said(custom, ["One word ", "after another ", "is read."])
