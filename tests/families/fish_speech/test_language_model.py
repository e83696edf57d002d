"""Frames depend on their own request alone: in company, after a loss of the slot, by their seed."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from shutil import copytree

import numpy as np
import pytest

from antiphon.contracts.family import LoadContext
from antiphon.contracts.types import Sampling, SpeechRequest
from antiphon.families.fish_speech.language_model import (
    WINDOW_FRAMES,
    FishSpeechRunner,
    load_runner,
)
from antiphon.families.fish_speech.prompt import FishSpeechPrompter
from tests.engine.copying import assert_copies_exactly
from tests.engine.drive import generate
from tests.families.fish_speech.spoken import (
    cloning_ids,
    ids_of,
    made_prompt,
    make_ending,
    reference_of,
)

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


def test_a_recording_changes_what_is_said(runner: FishSpeechRunner) -> None:
    ids = cloning_ids(7)
    one, other = (
        generate(runner, {0: made_prompt(ids, reference_of(seed), seed=3)}, 4)[0].codes
        for seed in (1, 2)
    )
    assert one != other


def test_the_likeliest_is_said_at_no_temperature(runner: FishSpeechRunner) -> None:
    cold = Sampling(temperature=0.0, top_k=30, top_p=0.9)
    one, other = (
        generate(runner, {0: made_prompt(ids_of(1), seed=seed, sampling=cold)}, 6)[0].codes
        for seed in (1, 2)
    )
    assert one == other


def test_speech_has_a_frame_at_least_and_a_limit(runner: FishSpeechRunner) -> None:
    for seed in range(6):
        hot = Sampling(temperature=100.0, top_k=0, top_p=1.0)
        heard = generate(runner, {0: made_prompt(ids_of(1), seed=seed, sampling=hot)}, 1)[0]
        assert len(heard.frames) == 1
        assert heard.frames[0][0] < NUM_CODES
    limited = generate(runner, {0: made_prompt(ids_of(1), seed=1, max_frames=3)}, 9)[0]
    assert (len(limited.frames), limited.end) == (3, "length")


def test_what_was_just_said_is_said_less_often(runner: FishSpeechRunner) -> None:
    """With a top-k of 1 every code is the likeliest one, unless it was said in the last frames."""
    only = Sampling(temperature=1.0, top_k=2, top_p=1.0)
    repeated = []
    for seed in range(3):
        prompt = made_prompt(ids_of(seed), seed=seed, sampling=only)
        said = [frame[0] for frame in generate(runner, {0: prompt}, 24)[0].frames]
        repeated += [
            code in said[max(1, place - WINDOW_FRAMES) : place]
            for place, code in enumerate(said)
            if place > 1
        ]
    assert 0 < np.mean(repeated) < 0.5


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
        heard = generate(runner, prompts, 12)
        assert [each.end for each in heard.values()] == ["stop"] * 4
        assert all(each.codes[0][0] < NUM_CODES for each in heard.values())
        prompts = {slot: replace(each, seed=each.seed + 4) for slot, each in prompts.items()}
