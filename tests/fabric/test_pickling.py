"""All that crosses a process survives it: requests, stage items, errors and what is declared."""

import inspect
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from antiphon import errors
from antiphon.contracts import family as declarations
from antiphon.contracts import prompt as prompts
from antiphon.contracts import types
from antiphon.contracts.family import LoadContext
from antiphon.contracts.picture_types import (
    DiffusionParameters,
    Image,
    ImageRequest,
    Progress,
    Video,
    VideoRequest,
)
from antiphon.contracts.prepared_voice import PreparedVoice
from antiphon.contracts.prompt import Admitted, Piece, Prompt
from antiphon.contracts.types import (
    AudioChunk,
    Caller,
    Ended,
    FrameReady,
    Latents,
    PositionStates,
    Sampling,
    SpeechRequest,
    Usage,
    Voice,
    WordTime,
)
from antiphon.errors import AntiphonError, OverloadedError, UnknownVoiceError
from antiphon.fabric.wire.safe_pickle import dumps, loads
from antiphon.families.registry import FAMILIES, families
from antiphon.stages.base import StageRequest

ERRORS = [
    found
    for _, found in inspect.getmembers(errors, inspect.isclass)
    if issubclass(found, AntiphonError)
]
ARGUMENTS: dict[str, object] = {
    "str": "some text",
    "str | None": "some text",
    "int": 3,
    "float": 2.5,
    "float | None": 2.5,
    "collections.abc.Iterable[str]": ["alto", "tenor"],
    "tuple[str, ...]": ("alto", "tenor"),
    "collections.abc.Mapping[str, str]": {"alto": "speech"},
}
SAMPLES = np.linspace(-1.0, 1.0, 7, dtype=np.float32)
PROMPT = Prompt(
    data={"ids": np.arange(4)},
    num_tokens=4,
    seed=7,
    sampling=Sampling(top_k=3),
    context_frames=np.arange(6).reshape(3, 2),
    position_keys=(1, 2, 3),
)
PREPARED = PreparedVoice(name="Ann", family="some", speaker_embedding=np.ones(3, np.float32))
CROSSING: list[Any] = [
    SpeechRequest("Hi.", options={"voice": PREPARED}, pronunciations={"a": "b"}, seed=1),
    Caller("ann"),
    Sampling(temperature=0.5),
    Voice(id="alto", name="Alto"),
    FrameReady(np.arange(16)),
    WordTime("Hi", 0.0, 0.25, 7),
    AudioChunk(SAMPLES, 24_000, 2, (WordTime("Hi", 0.0, 0.25, 7),), ("?",)),
    Image(np.zeros((2, 3, 1), np.uint8)),
    Latents({"prompt": np.zeros((2, 3), np.float32)}, preview_index=1),
    PositionStates(3, np.zeros((2, 4), np.float32)),
    Video(np.zeros((2, 3, 4, 3), np.uint8), fps=24),
    Progress(1, 8),
    Admitted(),
    DiffusionParameters(num_inference_steps=8),
    ImageRequest("a bird", seed=1, images=(np.zeros((2, 3, 3), np.uint8),)),
    VideoRequest("a bird", num_frames=5),
    Usage(3, 4),
    Ended("length", Usage(3, 4), ("?",)),
    PROMPT,
    Piece(data=np.arange(2), num_frames_allowed=None),
    StageRequest("req", PROMPT, stream_id="req", speed=1.5),
    LoadContext(Path("folder"), "cuda", max_slots=2),
]


def crossed(thing: Any) -> Any:
    return pickle.loads(pickle.dumps(thing))


def assert_equal(one: Any, other: Any) -> None:
    """Assert equality through arrays, and through dataclasses that do not compare."""
    assert type(one) is type(other)
    if isinstance(one, np.ndarray):
        np.testing.assert_array_equal(one, other, strict=True)
    elif is_dataclass(one) and not isinstance(one, type):
        for field in fields(one):
            assert_equal(getattr(one, field.name), getattr(other, field.name))
    elif isinstance(one, Mapping):
        assert one.keys() == other.keys()
        for key in one:
            assert_equal(one[key], other[key])
    elif isinstance(one, Sequence) and not isinstance(one, str):
        assert len(one) == len(other)
        for left, right in zip(one, other, strict=True):
            assert_equal(left, right)
    else:
        assert one == other


def made(kind: Callable[..., AntiphonError]) -> AntiphonError:
    """Make an error with an argument of each parameter's type."""
    given = {
        name: ARGUMENTS[inspect.formatannotation(parameter.annotation)]
        for name, parameter in inspect.signature(kind).parameters.items()
    }
    return kind(**given)


@pytest.mark.parametrize("kind", ERRORS)
def test_errors_cross(kind: type[AntiphonError]) -> None:
    error = made(kind)
    other = crossed(error)
    assert type(other) is kind
    assert str(other) == str(error)
    assert vars(other) == vars(error)
    for name in ("status", "type", "code", "param", "message", "retry_after_s"):
        assert getattr(other, name) == getattr(error, name)


def test_an_error_of_another_constructor_crosses_with_all_that_it_says() -> None:
    assert crossed(OverloadedError("full", retry_after_s=2.0)).retry_after_s == 2.0
    unknown = UnknownVoiceError("bass", ["alto"])
    assert crossed(unknown).message == unknown.message


@pytest.mark.parametrize("thing", CROSSING, ids=lambda thing: type(thing).__name__)
def test_data_crosses(thing: Any) -> None:
    assert_equal(crossed(thing), thing)


@pytest.mark.parametrize("module", [types, prompts], ids=lambda module: module.__name__)
def test_no_dataclass_of_the_vocabulary_is_forgotten(module: Any) -> None:
    declared = {
        found
        for _, found in inspect.getmembers(module, is_dataclass)
        if isinstance(found, type) and found.__module__ == module.__name__
    }
    stays = {prompts.TextCheck, prompts.EncodingBatch}  # with the prompter, and the engine
    assert declared - stays <= {type(thing) for thing in CROSSING}


@pytest.mark.parametrize("family", families(), ids=FAMILIES)
def test_declarations_cross(family: declarations.Family) -> None:
    assert crossed(family) == family


@pytest.mark.parametrize("name", ["toy", "hibari"])
def test_prompts_of_families_cross(name: str) -> None:
    family = declarations.Ref(FAMILIES[name]).resolve()
    task = family.tasks["speech"]
    prompter = task.prompter.resolve()(LoadContext())
    request = SpeechRequest("Hello there.", sampling=task.sampling)
    prompt = prompter.build(request, prompter.capabilities.voices[0], 1)
    assert_equal(crossed(prompt), prompt)


@pytest.mark.parametrize("name", ["image", "video"])
def test_prompts_of_pictures_cross(name: str) -> None:
    task = declarations.Ref(FAMILIES["toy"]).resolve().tasks[name]
    prompter = task.prompter.resolve()(LoadContext())
    prompt = prompter.build(prompter.capabilities.sample_request, 1)
    assert_equal(loads(dumps(prompt)), prompt)
