"""Frames depend on their own request alone: not on company, slot, history, or when text came."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from antiphon.contracts.family import LoadContext
from antiphon.contracts.prompt import Prompt
from antiphon.engine.plan import Start
from antiphon.families.qwen3_tts.config import CheckpointTask, Qwen3TTSConfig
from antiphon.families.qwen3_tts.config_reader import load_config
from antiphon.families.qwen3_tts.language_model import load_runner
from tests.engine.drive import Drive
from tests.families.qwen3_tts.lm import DRAWN, GREEDY, Heard, hear, hear_late, made_prompt, opened
from tests.families.qwen3_tts.random_checkpoint import FEW_GROUPS

NUM_SLOTS = 5
MAX_POSITIONS = 256
CACHE_BYTES = 2**22
CROWD_FRAMES = 14
"""Of each in a crowd: some end before, others are cut."""


class Loaded:
    """A checkpoint with a runner."""

    def __init__(self, path: Path, **more: bool) -> None:
        self.config: Qwen3TTSConfig = load_config(path)
        context = LoadContext(path, "cpu", "float32", NUM_SLOTS, CACHE_BYTES)
        self.runner = load_runner(context, max_positions=MAX_POSITIONS, **more)

    def alone(self, prompt: Prompt, slot: int = 0, max_frames: int = 25) -> Heard:
        return hear(self.runner, {slot: prompt}, max_frames=max_frames)[slot]


@pytest.fixture(scope="module")
def base(checkpoint: Callable[..., Path]) -> Loaded:
    return Loaded(checkpoint("tiny", CheckpointTask.BASE))


@pytest.fixture(scope="module")
def small(checkpoint: Callable[..., Path]) -> Loaded:
    return Loaded(checkpoint("tiny-0.6b", CheckpointTask.CUSTOM_VOICE))


def groups(prompts: Sequence[Prompt]) -> Iterator[Sequence[Prompt]]:
    """Return prompts by as many as there are slots."""
    for first in range(0, len(prompts), NUM_SLOTS):
        yield prompts[first : first + NUM_SLOTS]


def mixed_prompts(config: Qwen3TTSConfig) -> dict[int, Prompt]:
    """Return prompts of every layout, drawn and greedy, in slots out of order."""
    return {
        3: made_prompt(config, seed=1),
        0: made_prompt(config, seed=2, streams_text=False),
        4: made_prompt(config, seed=3, num_reference_frames=0, num_tokens=3),
        1: made_prompt(config, seed=4, num_reference_frames=20, sampling=GREEDY),
        2: made_prompt(config, seed=5, num_reference_frames=3, num_tokens=30),
    }


def test_alone_equals_in_a_crowd_exactly(base: Loaded) -> None:
    prompts = mixed_prompts(base.config)
    together = hear(base.runner, prompts, max_frames=CROWD_FRAMES)
    for slot, prompt in prompts.items():
        alone = base.alone(prompt, slot=(slot + 2) % NUM_SLOTS, max_frames=CROWD_FRAMES)
        assert alone.frames
        assert alone.codes == together[slot].codes
        assert alone.end == together[slot].end


def test_computing_a_crowd_together_gives_the_same_codes(
    base: Loaded, checkpoint: Callable[..., Path]
) -> None:
    """Rounding may differ there; on these prompts it turns no draw."""
    batched = Loaded(checkpoint("tiny", CheckpointTask.BASE), is_batched=True)
    prompts = mixed_prompts(base.config)
    one_by_one, together = (
        hear(each.runner, prompts, max_frames=CROWD_FRAMES) for each in (base, batched)
    )
    for slot in prompts:
        assert together[slot].codes == one_by_one[slot].codes


def test_requests_that_join_and_leave_do_not_disturb_each_other(small: Loaded) -> None:
    prompts = [made_prompt(small.config, seed=seed, num_tokens=5 + seed) for seed in range(4)]
    expected = [small.alone(prompt, max_frames=12).codes for prompt in prompts]
    drive = Drive(small.runner)
    heard: list[list[list[int]]] = [[] for _ in prompts]

    def step(
        slots: Sequence[int], starts: Sequence[int] = (), releases: Sequence[int] = ()
    ) -> None:
        new = [Start(slot, prompts[slot]) for slot in starts]
        for slot, frame in drive.step(slots, starts=new, releases=releases).frames.items():
            heard[slot].append(frame.tolist())

    step((0, 1), starts=(0, 1))
    step((0, 2), starts=(2,))  # 1 sits out
    step((0, 2), releases=(1,))
    step((3, 2, 1), starts=(3, 1))
    heard[1] = heard[1][1:]  # it began again
    for _ in range(3):
        step((1, 0, 3))
    step((), releases=(0, 1, 2, 3))
    for codes, whole in zip(heard, expected, strict=True):
        assert codes
        assert codes == whole[: len(codes)]


def test_a_released_slot_leaves_nothing_behind(small: Loaded) -> None:
    prompt = made_prompt(small.config, seed=7)
    fresh = small.alone(prompt, slot=2)
    for seed in range(20, 23):
        small.alone(made_prompt(small.config, seed=seed, num_tokens=40), slot=2, max_frames=9)
        assert small.alone(prompt, slot=2).codes == fresh.codes


def test_seeds_matter_and_repeat(small: Loaded) -> None:
    prompt = made_prompt(small.config, seed=1)
    other = replace(prompt, seed=2**60 + 1)
    first = small.alone(prompt)
    assert first.codes == small.alone(prompt).codes
    assert first.codes != small.alone(other).codes
    assert all(frame.dtype == np.int64 and frame.shape == (FEW_GROUPS,) for frame in first.frames)


def prompt_of(base: Loaded, num_reference_frames: int | None) -> Prompt:
    return made_prompt(
        base.config, seed=11, num_tokens=9, num_reference_frames=num_reference_frames
    )


@pytest.fixture(scope="module")
def early_codes(base: Loaded) -> Callable[[int | None], list[list[int]]]:
    """Return the codes of a prompt with all of its text, by its number of reference frames."""
    return cache(lambda number: base.alone(prompt_of(base, number), max_frames=15).codes)


@given(data=st.data())
@settings(
    max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_late_text_gives_the_codes_of_early_text(
    base: Loaded, early_codes: Callable[[int | None], list[list[int]]], data: st.DataObject
) -> None:
    num_reference_frames = data.draw(st.sampled_from([None, 3, 12]))
    prompt = prompt_of(base, num_reference_frames)
    num_late = data.draw(st.integers(1, 10))
    cuts = data.draw(st.lists(st.integers(0, num_late - 1), max_size=4))
    late = hear_late(base.runner, *opened(prompt, num_late, cuts), max_frames=15)
    assert late.codes == early_codes(num_reference_frames)


def test_speech_that_never_ends_is_cut_at_its_budget(small: Loaded) -> None:
    sampling = replace(DRAWN, ignore_eos=True)
    prompt = made_prompt(small.config, seed=3, num_tokens=17, sampling=sampling, max_frames=60)
    heard = small.alone(prompt, max_frames=300)
    assert heard.end == "length"
    assert len(heard.frames) == 60
    late = hear_late(small.runner, *opened(prompt, 12, [1, 7]), max_frames=300)
    assert late.end == "length"
    assert late.codes == heard.codes


def test_a_full_slot_ends_its_request(checkpoint: Callable[..., Path]) -> None:
    path = checkpoint("tiny-0.6b", CheckpointTask.CUSTOM_VOICE)
    runner = load_runner(LoadContext(path, "cpu", "float32", 1), max_positions=40)
    prompt = made_prompt(load_config(path), seed=3)
    heard = hear(runner, {0: prompt}, max_frames=60)[0]
    assert heard.end == "length"
    assert len(heard.frames) == 40 - prompt.data.num_prefilled


def test_a_frame_that_is_kept_keeps_no_others(checkpoint: Callable[..., Path]) -> None:
    loaded = Loaded(checkpoint("tiny", CheckpointTask.BASE), is_batched=True)
    heard = hear(loaded.runner, mixed_prompts(loaded.config), max_frames=2)
    for frame in (frame for each in heard.values() for frame in each.frames):
        assert frame.base is None, "a whole step's memory stays, which a GPU's driver has pinned"


def test_speech_ends_where_the_model_says(checkpoint: Callable[..., Path]) -> None:
    small = Loaded(checkpoint("tiny-0.6b", CheckpointTask.CUSTOM_VOICE), is_batched=True)
    prompts = [made_prompt(small.config, seed=seed, sampling=GREEDY) for seed in range(12)]
    heard = [
        each
        for few in groups(prompts)
        for each in hear(small.runner, dict(enumerate(few)), max_frames=40).values()
    ]
    assert len(heard) == len(prompts)
    ended = [each for each in heard if each.end == "stop"]
    assert ended
    eos = small.config.talker.tokens.eos
    for each in heard:
        assert len(each.frames) >= 2, "the first two codes are never the end"
        assert all(code != eos for frame in each.codes for code in frame)
        assert all(0 <= code < 2048 for frame in each.codes for code in frame)


@pytest.mark.parametrize("is_batched", [False, True])
def test_bad_numbers_end_their_own_request_only(
    is_batched: bool, checkpoint: Callable[..., Path]
) -> None:
    loaded = Loaded(checkpoint("tiny", CheckpointTask.BASE), is_batched=is_batched)
    prompts = mixed_prompts(loaded.config)
    expected = hear(loaded.runner, prompts, max_frames=6)
    longest = max(prompts, key=lambda slot: prompts[slot].data.num_prefilled)
    spoilt = prompts[longest].data
    bad = replace(spoilt, speaker=np.full_like(spoilt.speaker, np.nan))
    spoilt_prompts = {**prompts, longest: replace(prompts[longest], data=bad)}
    heard = hear(loaded.runner, spoilt_prompts, max_frames=6)
    assert heard[longest].end == "error"
    assert not heard[longest].frames
    for slot in prompts:
        assert slot == longest or heard[slot].codes == expected[slot].codes
    # What has gone bad must not be met by shorter requests in that slot, beside longer ones.
    moved = {(slot + 1) % NUM_SLOTS: prompt for slot, prompt in prompts.items()}
    again = hear(loaded.runner, moved, max_frames=6)
    for slot in prompts:
        assert again[(slot + 1) % NUM_SLOTS].codes == expected[slot].codes
