"""Prompts read in pieces, from shared blocks, or anew after a preemption give the same codes."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from antiphon.contracts.family import LoadContext
from antiphon.contracts.prompt import Prompt
from antiphon.engine.model_runner import model_runner
from antiphon.engine.plan import FRAME_STORE_FRAMES, Append, Start
from antiphon.families.qwen3_tts.config import CheckpointTask
from antiphon.families.qwen3_tts.config_reader import load_config
from antiphon.families.qwen3_tts.language_model import Qwen3TTSRunner, load_runner
from antiphon.nn.graphs import Graphs
from tests.engine.drive import Drive, Generated, generate, take
from tests.families.qwen3_tts.lm import Codes, made_prompt, opened
from tests.families.qwen3_tts.random_checkpoint import FEW_GROUPS

MAX_FRAMES = 14


@pytest.fixture(scope="module")
def path(checkpoint: Callable[..., Path]) -> Path:
    return checkpoint("tiny", CheckpointTask.BASE)


class CalledGraphs(Graphs):
    """Rounds as graphs do, without a GPU: what would be replayed is called."""

    def __init__(self, device: torch.device, **_: object) -> None:
        super().__init__(device)
        self.is_enabled = True
        self.keys: set[Hashable] = set()

    def __contains__(self, key: Hashable) -> bool:
        return key in self.keys

    def capture(self, key: Hashable, function: Callable[[], Tensor]) -> None:
        self.keys.add(key)
        function()


@pytest.fixture(scope="module", params=["one by one", "batched", "rounded"])
def runner(request: pytest.FixtureRequest, path: Path) -> Iterator[Qwen3TTSRunner]:
    context = LoadContext(path, "cpu", "float32", 4)
    is_batched = request.param != "one by one"
    with pytest.MonkeyPatch.context() as monkeypatch:
        if request.param == "rounded":
            monkeypatch.setattr(model_runner, "Graphs", CalledGraphs)
        yield load_runner(context, max_positions=256, is_batched=is_batched)


@pytest.fixture(scope="module")
def prompts(path: Path) -> list[Prompt]:
    config = load_config(path)
    return [
        made_prompt(config, seed=1),
        made_prompt(config, seed=2, num_reference_frames=0, num_tokens=30, streams_text=False),
        made_prompt(config, seed=4, num_reference_frames=40),
    ]


def resumed(
    runner: Qwen3TTSRunner,
    prompt: Prompt,
    frames: Sequence[Codes],
    appends: Sequence[Append] = (),
) -> Generated:
    """Go on after frames in slot 3; return these with those made."""
    drive, heard = Drive(runner, piece_positions=19), {3: Generated(list(frames))}
    starts = [Start(3, prompt, tuple(frames))]
    while heard[3].end is None and len(heard[3].frames) < MAX_FRAMES:
        take(heard, drive.step((3,), starts=starts, appends=appends), drive.faults)
        starts, appends = [], ()
    drive.step(releases=(3,))
    return heard[3]


@pytest.mark.parametrize(
    "piece_positions", [7, *(pytest.param(each, marks=pytest.mark.slow) for each in (1, 16))]
)
def test_a_prompt_may_be_read_in_pieces(
    runner: Qwen3TTSRunner, prompts: list[Prompt], piece_positions: int
) -> None:
    by_slot = dict(enumerate(prompts))
    whole = generate(runner, by_slot, MAX_FRAMES)
    parted = generate(runner, by_slot, MAX_FRAMES, piece_positions=piece_positions)
    for slot in by_slot:
        assert parted[slot].codes == whole[slot].codes
        assert parted[slot].codes


# Slow: each preempts after every frame.
@pytest.mark.parametrize(
    "index", [0, *(pytest.param(each, marks=pytest.mark.slow) for each in (1, 2))]
)
def test_a_request_goes_on_after_a_preemption_at_any_frame(
    runner: Qwen3TTSRunner, prompts: list[Prompt], index: int
) -> None:
    penalized = replace(prompts[index].sampling, repetition_penalty=1.5)
    prompt = replace(prompts[index], sampling=penalized)
    whole = generate(runner, {1: prompt}, MAX_FRAMES)[1]
    assert len(whole.frames) > 3
    for num_made in range(1, len(whole.frames)):
        again = resumed(runner, prompt, whole.frames[:num_made])
        assert again.codes == whole.codes
        assert again.end == whole.end


def test_a_request_whose_text_came_late_goes_on_too(
    runner: Qwen3TTSRunner, prompts: list[Prompt]
) -> None:
    whole = generate(runner, {1: prompts[2]}, MAX_FRAMES)[1]
    early, pieces = opened(prompts[2], 10, [3, 7])
    appends = [Append(3, piece) for piece in pieces]
    assert resumed(runner, early, whole.frames[:4], appends=appends).codes == whole.codes


def test_a_loop_is_found_across_a_preemption(runner: Qwen3TTSRunner, prompts: list[Prompt]) -> None:
    frame = generate(runner, {1: prompts[0]}, 1)[1].frames[0]
    assert resumed(runner, prompts[0], [frame] * (MAX_FRAMES - 1)).end is None
    drive, heard = Drive(runner), {0: Generated()}
    take(heard, drive.step((0,), starts=[Start(0, prompts[0], (frame,) * 120)]), drive.faults)
    drive.step(releases=(0,))
    assert heard[0].end == "length"


def test_equal_beginnings_share_their_blocks(runner: Qwen3TTSRunner, prompts: list[Prompt]) -> None:
    first = prompts[2]
    other = replace(first, seed=99)
    expected = generate(runner, {2: other}, MAX_FRAMES)[2]
    drive, heard = Drive(runner), {0: Generated(), 2: Generated()}
    take(heard, drive.step((0,), starts=[Start(0, first)]), drive.faults)
    num_shared = first.num_positions // 16
    assert num_shared >= 2
    shared = {2: drive.blocks_of(0)[:num_shared]}
    starts = [Start(2, other)]
    while heard[2].end is None and len(heard[2].frames) < MAX_FRAMES:
        slots = (2,) if heard[0].end else (0, 2)
        take(heard, drive.step(slots, starts=starts, shared=shared), drive.faults)
        starts = []
    drive.step(releases=(2, 0))
    assert heard[2].codes == expected.codes
    alone = generate(runner, {0: first}, MAX_FRAMES + 1)[0]
    assert heard[0].codes == alone.codes[: len(heard[0].codes)]


def test_a_prompt_that_lies_in_shared_blocks_altogether_is_not_read(
    runner: Qwen3TTSRunner, path: Path
) -> None:
    config = load_config(path)
    num_without = made_prompt(config, seed=6, num_reference_frames=0).num_positions
    prompt = made_prompt(config, seed=6, num_reference_frames=32 - num_without)
    assert prompt.num_positions == 32
    drive, heard = Drive(runner), {0: Generated(), 1: Generated()}
    take(heard, drive.step((0,), starts=[Start(0, prompt)]), drive.faults)
    shared = {1: drive.blocks_of(0)[:2]}
    take(heard, drive.step((1,), starts=[Start(1, prompt)], shared=shared), drive.faults)
    drive.step(releases=(0, 1))
    assert heard[0].codes == heard[1].codes


def test_the_latest_frames_are_kept_where_a_decoder_finds_them(
    runner: Qwen3TTSRunner, prompts: list[Prompt]
) -> None:
    rng = np.random.default_rng(0)
    made = [*rng.integers(0, 2048, (FRAME_STORE_FRAMES + 5, FEW_GROUPS))]
    drive, heard = Drive(runner), {1: Generated()}
    take(heard, drive.step((1,), starts=[Start(1, prompts[0], tuple(made))]), drive.faults)
    take(heard, drive.step((1,)), drive.faults)
    drive.step(releases=(1,))
    frames = [*made, *heard[1].frames]
    store = runner.frame_store[1].numpy()
    for number in range(len(frames) - FRAME_STORE_FRAMES, len(frames)):
        assert (store[number % FRAME_STORE_FRAMES] == frames[number]).all()
