"""Frames depend on their own request alone: in company, in a batch, and after a move."""

from pathlib import Path

import numpy as np
import pytest

from antiphon.models.mimo_audio.runner import MiMoAudioRunner, load_runner
from antiphon.models.spec import LoadContext
from tests.models.mimo_audio.speaking import DRAWN, GREEDY, Frames, frames_of, prompt_of

NUM_FRAMES = 10


@pytest.fixture(scope="module")
def runner(checkpoint: Path) -> MiMoAudioRunner:
    return load_runner(LoadContext(checkpoint, "cpu", "float32", 4))


def assert_same(one: Frames, other: Frames) -> None:
    np.testing.assert_array_equal(np.stack(one), np.stack(other))


def alone(runner: MiMoAudioRunner, checkpoint: Path, seed: int, slot: int = 0) -> Frames:
    prompt = prompt_of(checkpoint, f"Sentence {seed}.", DRAWN, seed)
    return frames_of(runner, {slot: prompt}, NUM_FRAMES)[slot]


def test_seeds_make_frames_and_slots_do_not(runner: MiMoAudioRunner, checkpoint: Path) -> None:
    prompts = {slot: prompt_of(checkpoint, f"Sentence {slot}.", DRAWN, slot) for slot in range(3)}
    together = frames_of(runner, prompts, NUM_FRAMES)
    for seed, frames in together.items():
        made = alone(runner, checkpoint, seed, slot=3)
        length = min(len(frames), len(made))
        assert length > 1
        assert_same(frames[:length], made[:length])


def test_a_moved_request_goes_on(runner: MiMoAudioRunner, checkpoint: Path) -> None:
    whole = alone(runner, checkpoint, 1)
    prompt = prompt_of(checkpoint, "Sentence 1.", DRAWN, 1)
    for count in (1, len(whole) - 1):
        moved = frames_of(runner, {2: prompt}, NUM_FRAMES, {2: whole[:count]})[2]
        assert_same(moved, whole)


def test_a_batch_makes_the_same_frames(runner: MiMoAudioRunner, checkpoint: Path) -> None:
    prompts = {slot: prompt_of(checkpoint, f"Number {slot}", GREEDY, slot) for slot in range(2)}
    batched = load_runner(LoadContext(checkpoint, "cpu", "float32", 2), is_batched=True)
    made = frames_of(batched, prompts, 6)
    for slot, frames in frames_of(runner, prompts, 6).items():
        assert_same(made[slot], frames)


def test_text_has_no_codes_and_speech_no_empty_ones(
    runner: MiMoAudioRunner, checkpoint: Path
) -> None:
    frames = np.concatenate([np.stack(alone(runner, checkpoint, seed)) for seed in range(4)])
    empty = np.array([32, 32, 8, 8, 8, 8, 8, 8] * 4)
    is_speech = frames[:, 0] == 261
    assert 0 < is_speech.sum() < len(frames)
    assert (frames[~is_speech, 1:] == empty).all()
    assert (frames[is_speech, 1:] < empty).all()
