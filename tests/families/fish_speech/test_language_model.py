"""Frames depend on their own request alone: in company, after a loss of the slot, by their seed."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from shutil import copytree

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from antiphon.contracts.family import LoadContext
from antiphon.contracts.types import Sampling, SpeechRequest
from antiphon.families.fish_speech.language_model import (
    WINDOW_FRAMES,
    DualARModel,
    FishSpeechRunner,
    load_runner,
)
from antiphon.families.fish_speech.prompt import FishSpeechPrompter
from antiphon.families.kit.mixed.prompt import FRAME
from tests.asking import step_asking_nothing
from tests.engine.copying import assert_copies_exactly
from tests.families.fish_speech.spoken import hear, made_prompt, make_ending

NUM_CODES = 160


S1 = pytest.param("s1", marks=pytest.mark.slow)  # twice the time; its codes are in the parity tests


@pytest.fixture(scope="module", params=["s2", S1])
def context(request: pytest.FixtureRequest, made: Callable[[str], Path]) -> LoadContext:
    return LoadContext(path=made(request.param), device="cpu", max_slots=4)


@pytest.fixture(scope="module")
def runner(context: LoadContext) -> FishSpeechRunner:
    return load_runner(context, max_positions=256)


@pytest.fixture
def prompter(context: LoadContext) -> FishSpeechPrompter:
    return FishSpeechPrompter(context)


def ids_of(seed: int, count: int = 9) -> NDArray[np.int64]:
    return np.random.default_rng(seed).integers(0, 256, count)


def reference_of(seed: int, count: int = 5) -> NDArray[np.int64]:
    return np.random.default_rng(seed).integers(0, NUM_CODES, (count, 10))


def cloning_ids(seed: int, num_frames: int = 5) -> NDArray[np.int64]:
    return np.concatenate((ids_of(seed, 4), np.full(num_frames, FRAME), ids_of(seed + 1, 6)))


def test_alone_equals_together(runner: FishSpeechRunner) -> None:
    prompts = {
        0: made_prompt(ids_of(1), seed=1),
        1: made_prompt(cloning_ids(2), reference_of(2), seed=2),
        3: made_prompt(
            ids_of(3, 40), seed=3, sampling=Sampling(temperature=0.4, top_k=0, top_p=1.0)
        ),
    }
    together = hear(runner, prompts, max_frames=16)
    for slot, prompt in prompts.items():
        alone = hear(runner, {0: prompt}, max_frames=16)[0]
        assert (alone.codes, alone.end) == (together[slot].codes, together[slot].end)
    assert len({tuple(each.codes[2]) for each in together.values()}) == 3


def test_a_request_goes_on_where_it_was(runner: FishSpeechRunner) -> None:
    prompt = made_prompt(cloning_ids(5), reference_of(5), seed=9)
    whole = hear(runner, {0: prompt}, max_frames=20)[0]
    assert len(whole.frames) > 8
    for count in (1, len(whole.frames) - 1):
        again = hear(runner, {2: prompt}, max_frames=20, made={2: whole.frames[:count]})[2]
        assert again.codes == whole.codes


def test_a_recording_changes_what_is_said(runner: FishSpeechRunner) -> None:
    ids = cloning_ids(7)
    one, other = (
        hear(runner, {0: made_prompt(ids, reference_of(seed), seed=3)}, max_frames=4)[0].codes
        for seed in (1, 2)
    )
    assert one != other


def test_the_likeliest_is_said_at_no_temperature(runner: FishSpeechRunner) -> None:
    cold = Sampling(temperature=0.0, top_k=30, top_p=0.9)
    one, other = (
        hear(runner, {0: made_prompt(ids_of(1), seed=seed, sampling=cold)}, max_frames=6)[0].codes
        for seed in (1, 2)
    )
    assert one == other


def test_speech_has_a_frame_at_least_and_a_limit(runner: FishSpeechRunner) -> None:
    for seed in range(6):
        hot = Sampling(temperature=100.0, top_k=0, top_p=1.0)
        heard = hear(runner, {0: made_prompt(ids_of(1), seed=seed, sampling=hot)}, max_frames=1)[0]
        assert len(heard.frames) == 1
        assert heard.frames[0][0] < NUM_CODES
    limited = hear(runner, {0: made_prompt(ids_of(1), seed=1, max_frames=3)}, max_frames=9)[0]
    assert (len(limited.frames), limited.end) == (3, "length")


def test_what_was_just_said_is_said_less_often(runner: FishSpeechRunner) -> None:
    """With a top-k of 1 every code is the likeliest one, unless it was said in the last frames."""
    only = Sampling(temperature=1.0, top_k=2, top_p=1.0)
    repeated = []
    for seed in range(3):
        prompt = made_prompt(ids_of(seed), seed=seed, sampling=only)
        said = [frame[0] for frame in hear(runner, {0: prompt}, max_frames=24)[0].frames]
        repeated += [
            code in said[max(1, place - WINDOW_FRAMES) : place]
            for place, code in enumerate(said)
            if place > 1
        ]
    assert 0 < np.mean(repeated) < 0.5


def test_a_step_asks_nothing_of_the_device(runner: FishSpeechRunner) -> None:
    step_asking_nothing(runner._model)


def test_copies_of_a_voice_change_nothing(
    runner: FishSpeechRunner, prompter: FishSpeechPrompter
) -> None:
    prompter.use_encoder(lambda recording: {"ref_codes": reference_of(7, 12)})
    recording = np.zeros(6000, np.float32)
    for options in ({}, {"ref_audio": recording, "ref_text": "So it was."}):
        one, other = (
            prompter.build(
                SpeechRequest(text, sampling=Sampling(max_frames=3), options=options),
                prompter.capabilities.voices[0],
                1,
            )
            for text in ("Good day.", "A second one.")
        )
        num_common = other.num_common_positions
        assert one.position_keys[num_common] != other.position_keys[num_common]
        assert_copies_exactly(runner, one, other)


def test_speech_has_a_frame_even_where_the_end_is_likeliest(
    made: Callable[[str], Path], tmp_path: Path
) -> None:
    path = tmp_path / "ending"
    copytree(made("s2"), path)
    make_ending(path)
    runner = load_runner(LoadContext(path, "cpu", max_slots=4), max_positions=64)
    prompts = {seed: made_prompt(ids_of(seed), seed=seed) for seed in range(4)}
    for _ in range(3):
        heard = hear(runner, prompts, max_frames=12)
        assert [each.end for each in heard.values()] == ["stop"] * 4
        assert all(each.codes[0][0] < NUM_CODES for each in heard.values())
        prompts = {slot: replace(each, seed=each.seed + 4) for slot, each in prompts.items()}


def test_a_request_goes_on_after_frames_that_are_prefilled(made: Callable[[str], Path]) -> None:
    """As on a GPU: frames made before are read at once, not replayed one by one."""
    context = LoadContext(path=made("s2"), device="cpu", max_slots=4)
    batched = load_runner(context, max_positions=256, is_batched=True)
    prompt = made_prompt(cloning_ids(5), reference_of(5), seed=9)
    whole = hear(batched, {0: prompt}, max_frames=16)[0]
    for count in (1, 7, len(whole.frames) - 1):
        again = hear(batched, {2: prompt}, max_frames=16, made={2: whole.frames[:count]})[2]
        assert again.codes == whole.codes


def test_numbers_gone_bad_end_their_own_request_only(made: Callable[[str], Path]) -> None:
    runner = load_runner(LoadContext(made("s2"), "cpu", max_slots=2), max_positions=64)
    good = made_prompt(ids_of(1) % 250, seed=1)
    alone = hear(runner, {0: good}, max_frames=4)[0]
    assert isinstance(runner._model, DualARModel)
    with torch.inference_mode():
        runner._model.slow.text_table[255] = torch.nan
    bad = made_prompt(np.array([1, 255, 2]), seed=1)
    heard = hear(runner, {0: good, 1: bad}, max_frames=4)
    assert (heard[1].end, heard[0].codes) == ("error", alone.codes)
