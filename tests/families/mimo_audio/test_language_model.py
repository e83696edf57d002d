"""Frames depend on their own request alone: in company, in a batch, and after a move."""

from pathlib import Path

import numpy as np
import pytest
import torch

from antiphon.contracts.family import LoadContext
from antiphon.engine.plan import Start
from antiphon.families.mimo_audio.language_model import MiMoAudioRunner, load_runner
from tests.engine.drive import Drive
from tests.families.mimo_audio.speaking import DRAWN, GREEDY, Frames, frames_of, prompt_of

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


def test_a_moved_request_goes_on_after_frames_that_are_prefilled(checkpoint: Path) -> None:
    """As on a GPU: frames made before are read at once, not replayed one by one."""
    batched = load_runner(LoadContext(checkpoint, "cpu", "float32", 3), is_batched=True)
    prompt = prompt_of(checkpoint, "Sentence 1.", DRAWN, 1)
    whole = frames_of(batched, {0: prompt}, NUM_FRAMES)[0]
    for count in (1, len(whole) - 1):
        assert_same(frames_of(batched, {2: prompt}, NUM_FRAMES, {2: whole[:count]})[2], whole)


def test_numbers_gone_bad_end_their_own_request_only(checkpoint: Path) -> None:
    runner = load_runner(LoadContext(checkpoint, "cpu", "float32", 2))
    good, bad = (prompt_of(checkpoint, text) for text in ("Good.", "Zzz"))
    alone = frames_of(runner, {0: good}, 1)[0]
    (id_, *_) = bad.data.groups[:, 0].tolist()
    with torch.inference_mode():
        runner._model.like[id_] = torch.nan
    drive = Drive(runner)
    output = drive.step([0, 1], starts=(Start(0, good), Start(1, bad)))
    assert drive.faults == {1}
    assert_same([output.frames[0]], alone)
