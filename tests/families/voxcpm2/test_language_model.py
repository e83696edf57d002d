"""A request's frames depend on it alone: not on its company, its slot, or what befell it before."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from antiphon.contracts.family import LoadContext
from antiphon.contracts.types import Sampling
from antiphon.families.kit import loading
from antiphon.families.voxcpm2.language_model import VoxCPM2Runner, load_runner
from antiphon.families.voxcpm2.prompt import VoxCPM2Prompter
from tests.asking import step_asking_nothing
from tests.engine.copying import assert_copies_exactly
from tests.families.voxcpm2.oracle.cases import continued, reference
from tests.families.voxcpm2.speaking import Spoken, ask, speak

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


def close(one: Spoken, other: Spoken) -> None:
    np.testing.assert_allclose(one.patches, other.patches, atol=1e-5)


def same(one: Spoken, other: Spoken) -> None:
    np.testing.assert_array_equal(np.stack(one.frames), np.stack(other.frames))


def test_a_batch_of_any_options_is_what_each_is_alone(
    alone: VoxCPM2Runner, in_doubles: Load, prompter: VoxCPM2Prompter
) -> None:
    prompts = {
        0: ask(prompter, "One.", 1, inference_timesteps=2, cfg_value=1.0),
        1: ask(prompter, "Another one, longer.", 2, ref_audio=reference()),
        2: ask(prompter, "A third.", 3, inference_timesteps=13, cfg_value=4.0),
        3: ask(prompter, "More", 4, prompt_audio=continued(), prompt_text="Said."),
    }
    exact = speak(alone, prompts, num_steps=NUM_FRAMES)
    one_by_one = in_doubles()
    crowd = speak(in_doubles(is_batched=True), prompts, num_steps=NUM_FRAMES)
    for slot, prompt in prompts.items():
        by_itself = speak(alone, {3 - slot: prompt}, num_steps=NUM_FRAMES)[3 - slot]
        same(by_itself, exact[slot])
        by_itself = speak(one_by_one, {3 - slot: prompt}, num_steps=NUM_FRAMES)[3 - slot]
        close(by_itself, crowd[slot])


@pytest.mark.parametrize("num_before", [1, 4, 8])
@pytest.mark.parametrize("is_continued", [False, True])
def test_a_request_goes_on_after_any_frame(
    num_before: int,
    is_continued: bool,
    alone: VoxCPM2Runner,
    in_doubles: Load,
    prompter: VoxCPM2Prompter,
) -> None:
    spoken: dict[str, Any] = {}
    if is_continued:
        spoken = {"prompt_audio": continued(), "prompt_text": "Said."}
    prompt = ask(prompter, "It is interrupted.", 5, **spoken)
    for runner, compare in ((alone, same), (in_doubles(is_batched=True), close)):
        whole = speak(runner, {0: prompt}, num_steps=NUM_FRAMES)[0]
        before = {2: whole.frames[:num_before]}
        rest = speak(runner, {2: prompt}, num_steps=NUM_FRAMES - num_before, before=before)[2]
        compare(rest, whole)


def test_an_end_is_not_forgotten_when_a_request_loses_its_slot(
    context: LoadContext, runner: VoxCPM2Runner, prompter: VoxCPM2Prompter
) -> None:
    prompt = ask(prompter, "Short.", 2)
    batched = load_runner(context, max_positions=256, is_batched=True)  # reads frames at once
    for each in (runner, batched):
        whole = speak(each, {0: prompt})[0]
        assert whole.end == "stopped"
        resumed = speak(each, {1: prompt}, before={1: whole.frames})[1]
        assert resumed.end == "stopped"
        same(resumed, whole)


def test_seeds_repeat_and_differ(alone: VoxCPM2Runner, prompter: VoxCPM2Prompter) -> None:
    first, again, other = (
        speak(alone, {0: ask(prompter, "Same text.", seed)}, num_steps=3)[0] for seed in (1, 1, 2)
    )
    same(first, again)
    assert np.abs(first.patches - other.patches).max() > 0.1


def test_options_change_what_is_spoken(alone: VoxCPM2Runner, prompter: VoxCPM2Prompter) -> None:
    plain = speak(alone, {0: ask(prompter)}, num_steps=3)[0]
    for options in ({"cfg_value": 3.0}, {"inference_timesteps": 6}, {"ref_audio": reference()}):
        changed = speak(alone, {0: ask(prompter, **options)}, num_steps=3)[0]
        assert np.abs(plain.patches - changed.patches).max() > 0.01


def test_speech_ends_at_the_limit_of_its_text(
    alone: VoxCPM2Runner, prompter: VoxCPM2Prompter
) -> None:
    prompt = ask(prompter, "a")
    spoken = speak(alone, {0: prompt}, num_steps=40)[0]
    assert spoken.end == "lengths"
    assert len(spoken.frames) == prompt.data.max_frames == 6 * 2 + 10
    assert len({frame.tobytes() for frame in spoken.frames}) == len(spoken.frames)


def test_numbers_gone_bad_end_their_own_request_only(
    alone: VoxCPM2Runner, prompter: VoxCPM2Prompter
) -> None:
    good, bad = ask(prompter, "Good."), ask(prompter, "Bad.", ref_audio=reference())
    bad.data.frames[:] = np.nan
    spoken = speak(alone, {0: good, 1: bad}, num_steps=3)
    assert spoken[1].end == "error"
    assert spoken[0].end is None
    same(spoken[0], speak(alone, {0: good}, num_steps=3)[0])


def test_a_step_asks_nothing_of_the_device(together: VoxCPM2Runner) -> None:
    step_asking_nothing(together._model)


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
