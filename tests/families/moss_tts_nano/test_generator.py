"""The contract of events: chunks, an end, failures, and a model that is used by one at a time."""

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from antiphon.contracts.family import LoadContext
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import AudioChunk, Samples
from antiphon.errors import EngineError
from antiphon.families.moss_tts_nano.generator import MossGenerator
from antiphon.families.moss_tts_nano.remote_model import load_remote

PromptOf = Callable[..., Prompt]
TEXT = "Speech is served as soon as it is ready."


def chunks_of(generator: MossGenerator, prompt: Prompt) -> list[AudioChunk]:
    return list(generator.generate(prompt))


def speak(generator: MossGenerator, prompt: Prompt) -> Samples:
    return np.concatenate([chunk.samples for chunk in chunks_of(generator, prompt)])


def test_each_event_with_audio_is_a_chunk(generator: MossGenerator, prompt_of: PromptOf) -> None:
    chunks = chunks_of(generator, prompt_of(TEXT))
    assert [chunk.num_frames for chunk in chunks] == [4] * (len(TEXT) // 4)
    for chunk in chunks:
        assert chunk.samples.dtype == np.float32
        assert chunk.samples.shape == (4 * 640, 2)
        assert chunk.samples.flags.c_contiguous
        assert chunk.sample_rate_hz == 8000


def test_a_seed_repeats_whatever_others_draw(generator: MossGenerator, prompt_of: PromptOf) -> None:
    expected = speak(generator, prompt_of(TEXT, 7))
    heard = []
    for chunk in generator.generate(prompt_of(TEXT, 7)):
        heard.append(chunk.samples)
        torch.rand(3)
    np.testing.assert_array_equal(np.concatenate(heard), expected)
    assert not np.array_equal(speak(generator, prompt_of(TEXT, 8)), expected)


def test_others_draw_as_if_nobody_had_spoken(generator: MossGenerator, prompt_of: PromptOf) -> None:
    torch.manual_seed(5)
    expected = torch.rand(4)
    torch.manual_seed(5)
    speak(generator, prompt_of(TEXT))
    assert torch.equal(torch.rand(4), expected)


def test_greedy_needs_no_seed(generator: MossGenerator, prompt_of: PromptOf) -> None:
    prompts = [prompt_of(TEXT, seed) for seed in (1, 2)]
    greedy = [replace(each, sampling=replace(each.sampling, temperature=0.0)) for each in prompts]
    np.testing.assert_array_equal(speak(generator, greedy[0]), speak(generator, greedy[1]))


def test_recordings_are_voices(generator: MossGenerator, prompt_of: PromptOf) -> None:
    ann, bob = [speak(generator, prompt_of(TEXT, voice=voice)) for voice in ("Ann", "Bob")]
    assert not np.array_equal(ann, bob)


def test_a_second_request_is_refused_rather_than_mixed_in(
    generator: MossGenerator, prompt_of: PromptOf
) -> None:
    expected = speak(generator, prompt_of(TEXT))
    staying = generator.generate(prompt_of(TEXT))
    heard = [next(staying)]
    with pytest.raises(EngineError, match="one at a time"):
        next(generator.generate(prompt_of("Another text.")))
    heard += staying
    np.testing.assert_array_equal(np.concatenate([each.samples for each in heard]), expected)


def test_leaving_early_leaves_nothing_behind(
    generator: MossGenerator,
    prompt_of: PromptOf,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    expected = speak(generator, prompt_of(TEXT))
    leaving = generator.generate(prompt_of("Somebody who leaves after the first chunk.", 3))
    next(leaving)
    assert len(list(tmp_path.iterdir())) == 1, "the file that the model writes"
    leaving.close()
    assert list(tmp_path.iterdir()) == []
    np.testing.assert_array_equal(speak(generator, prompt_of(TEXT)), expected)


def test_a_failure_ends_its_request_and_the_model_is_loaded_anew(
    generator: MossGenerator, prompt_of: PromptOf
) -> None:
    expected = speak(generator, prompt_of(TEXT))
    before = generator._model
    with pytest.raises(RuntimeError, match="the model has failed"):
        speak(generator, prompt_of("explode"))
    np.testing.assert_array_equal(speak(generator, prompt_of(TEXT)), expected)
    assert generator._model is not before


def test_one_that_is_closed_is_not_loaded_again(context: LoadContext, prompt_of: PromptOf) -> None:
    closed = MossGenerator(context)
    speaking = closed.generate(prompt_of(TEXT))
    next(speaking)
    closed.close()
    speaking.close()
    with pytest.raises(EngineError, match="not loaded any more"):
        next(closed.generate(prompt_of(TEXT)))
    assert closed._model is None


def test_there_is_never_room_taken_for_two(
    context: LoadContext, prompt_of: PromptOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = MossGenerator(context)
    with pytest.raises(RuntimeError, match="the model has failed"):
        speak(failing, prompt_of("explode"))
    held: list[tuple[bool, bool]] = []

    def watched(*arguments: Any, **more: Any) -> Any:
        held.append((failing._model is not None, failing._codec is not None))
        return load_remote(*arguments, **more)

    monkeypatch.setattr("antiphon.families.moss_tts_nano.generator.load_remote", watched)
    speak(failing, prompt_of(TEXT))
    assert held == [(False, False), (True, False)]
    failing.close()
