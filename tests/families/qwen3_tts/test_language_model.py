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
from antiphon.families.qwen3_tts.stopping import LoopDetectors
from tests.engine.drive import Drive, Generated, generate
from tests.families.qwen3_tts.lm import DRAWN, GREEDY, hear_late, made_prompt, mixed_prompts, opened

NUM_SLOTS = 5
MAX_POSITIONS = 256
CACHE_BYTES = 2**22
CROWD_FRAMES = 14
"""Of each in a crowd: some end before, others are cut."""


class Loaded:
    def __init__(self, path: Path, **more: bool) -> None:
        self.config: Qwen3TTSConfig = load_config(path)
        context = LoadContext(path, "cpu", "float32", NUM_SLOTS, CACHE_BYTES)
        self.runner = load_runner(context, max_positions=MAX_POSITIONS, **more)

    def alone(self, prompt: Prompt, slot: int = 0, max_frames: int = 25) -> Generated:
        return generate(self.runner, {slot: prompt}, max_frames)[slot]


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
    heard = generate(runner, {0: prompt}, 60)[0]
    assert heard.end == "length"
    assert len(heard.frames) == 40 - prompt.data.num_prefilled


def test_a_frame_that_is_kept_keeps_no_others(checkpoint: Callable[..., Path]) -> None:
    loaded = Loaded(checkpoint("tiny", CheckpointTask.BASE), is_batched=True)
    heard = generate(loaded.runner, mixed_prompts(loaded.config), 2)
    for frame in (frame for each in heard.values() for frame in each.frames):
        assert frame.base is None, "a whole step's memory stays, which a GPU's driver has pinned"


def test_speech_ends_where_the_model_says(checkpoint: Callable[..., Path]) -> None:
    small = Loaded(checkpoint("tiny-0.6b", CheckpointTask.CUSTOM_VOICE), is_batched=True)
    prompts = [made_prompt(small.config, seed=seed, sampling=GREEDY) for seed in range(12)]
    heard = [
        each
        for few in groups(prompts)
        for each in generate(small.runner, dict(enumerate(few)), 40).values()
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
    expected = generate(loaded.runner, prompts, 6)
    longest = max(prompts, key=lambda slot: prompts[slot].data.num_prefilled)
    spoilt = prompts[longest].data
    bad = replace(spoilt, speaker=np.full_like(spoilt.speaker, np.nan))
    spoilt_prompts = {**prompts, longest: replace(prompts[longest], data=bad)}
    heard = generate(loaded.runner, spoilt_prompts, 6, faulty=(longest,))
    assert heard[longest].end == "error"
    assert not heard[longest].frames
    for slot in prompts:
        assert slot == longest or heard[slot].codes == expected[slot].codes
    # What has gone bad must not be met by shorter requests in that slot, beside longer ones.
    moved = {(slot + 1) % NUM_SLOTS: prompt for slot, prompt in prompts.items()}
    again = generate(loaded.runner, moved, 6)
    for slot in prompts:
        assert again[(slot + 1) % NUM_SLOTS].codes == expected[slot].codes


def test_a_loop_ends_speech_unless_its_end_is_ignored(
    checkpoint: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LoopDetectors, "observe", lambda *_: np.ones(1, np.bool_))
    path = checkpoint("tiny-0.6b", CheckpointTask.CUSTOM_VOICE)
    runner = load_runner(LoadContext(path, "cpu", "float32", 1), max_positions=128)
    lengths = []
    for sampling in (DRAWN, replace(DRAWN, min_frames=5), replace(DRAWN, ignore_eos=True)):
        prompt = made_prompt(load_config(path), seed=1, sampling=sampling)
        lengths.append(len(generate(runner, {0: prompt}, 24)[0].frames))
    assert lengths == [2, 5, 24]
