"""A request's frames depend on it alone: not on its company, its slot, or what befell it before."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from antiphon.contracts.family import LoadContext
from antiphon.contracts.types import Sampling
from antiphon.families.kit import loading
from antiphon.families.voxcpm2.language_model import VoxCPM2Runner, load_runner
from antiphon.families.voxcpm2.prompt import VoxCPM2Prompter
from tests.engine.copying import assert_copies_exactly
from tests.engine.drive import Generated, generate
from tests.families.voxcpm2.oracle.cases import continued, reference
from tests.families.voxcpm2.speaking import LANGUAGE_MODEL, ask, patches

NUM_FRAMES = 9
Load = Callable[..., VoxCPM2Runner]


@pytest.fixture(scope="module")
def alone(endless_runner: Load) -> VoxCPM2Runner:
    return endless_runner()


@pytest.fixture(scope="module")
def together(endless_runner: Load) -> VoxCPM2Runner:
    return endless_runner(is_batched=True)


@pytest.fixture(scope="module")
def in_doubles(endless_runner: Load) -> Load:
    """Return what loads the checkpoint to compute in float64.

    A patch is the next one's input, and what products are rounded to depends on their rows and on
    the processor: in float32 that grows to 4e-4 in nine patches. In float64 nothing of it is left.
    """

    @cache
    def load(**how: Any) -> VoxCPM2Runner:
        with pytest.MonkeyPatch.context() as monkeypatch:
            monkeypatch.setattr(loading, "resolve_dtype", lambda *_: torch.float64)
            return endless_runner(**how)

    return load


def close(one: Generated, other: Generated) -> None:
    np.testing.assert_allclose(patches(one), patches(other), atol=1e-5)


def same(one: Generated, other: Generated) -> None:
    np.testing.assert_array_equal(np.stack(one.frames), np.stack(other.frames))


def test_a_batch_of_any_options_is_what_each_is_alone(checkpoint: Path, in_doubles: Load) -> None:
    prompts = LANGUAGE_MODEL.prompts(checkpoint)
    crowd = generate(in_doubles(is_batched=True), prompts, NUM_FRAMES)
    for slot, prompt in prompts.items():
        alone = generate(in_doubles(), {3 - slot: prompt}, NUM_FRAMES)[3 - slot]
        close(alone, crowd[slot])


@pytest.mark.parametrize("num_before", [1, 4, 8])
@pytest.mark.parametrize("is_continued", [False, True])
def test_a_batched_request_goes_on_after_any_frame(
    num_before: int, is_continued: bool, in_doubles: Load, prompter: VoxCPM2Prompter
) -> None:
    spoken: dict[str, Any] = {}
    if is_continued:
        spoken = {"prompt_audio": continued(), "prompt_text": "Said."}
    prompt = ask(prompter, "It is interrupted.", 5, **spoken)
    runner = in_doubles(is_batched=True)
    whole = generate(runner, {0: prompt}, NUM_FRAMES)[0]
    before = {2: whole.frames[:num_before]}
    close(generate(runner, {2: prompt}, NUM_FRAMES, before=before)[2], whole)


def test_an_end_is_not_forgotten_when_a_request_loses_its_slot(
    context: LoadContext, runner: VoxCPM2Runner, prompter: VoxCPM2Prompter
) -> None:
    prompt = ask(prompter, "Short.", 2)
    batched = load_runner(context, max_positions=256, is_batched=True)  # reads frames at once
    for each in (runner, batched):
        whole = generate(each, {0: prompt}, 12)[0]
        assert whole.end == "stop"
        resumed = generate(each, {1: prompt}, 12, before={1: whole.frames})[1]
        assert resumed.end == "stop"
        same(resumed, whole)


def test_options_change_what_is_spoken(alone: VoxCPM2Runner, prompter: VoxCPM2Prompter) -> None:
    plain = generate(alone, {0: ask(prompter)}, 3)[0]
    for options in ({"cfg_value": 3.0}, {"inference_timesteps": 6}, {"ref_audio": reference()}):
        changed = generate(alone, {0: ask(prompter, **options)}, 3)[0]
        assert np.abs(patches(plain) - patches(changed)).max() > 0.01


def test_speech_ends_at_the_limit_of_its_text(
    alone: VoxCPM2Runner, prompter: VoxCPM2Prompter
) -> None:
    prompt = ask(prompter, "a")
    spoken = generate(alone, {0: prompt}, 40)[0]
    assert spoken.end == "length"
    assert len(spoken.frames) == prompt.data.max_frames == 6 * 2 + 10
    assert len({frame.tobytes() for frame in spoken.frames}) == len(spoken.frames)


def test_copies_of_a_reference_change_nothing(
    alone: VoxCPM2Runner, prompter: VoxCPM2Prompter
) -> None:
    one, other = (
        replace(ask(prompter, text, 1, ref_audio=reference()), sampling=Sampling(max_frames=3))
        for text in ("Good day.", "A second one.")
    )
    assert one.num_common_positions == len(one.data.frames) + 2
    assert_copies_exactly(alone, one, other)
    assert ask(prompter, "Hi").num_common_positions == 0
