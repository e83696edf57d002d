"""Prompts and rows of a step go through the layers in one pass, and make the same frames so."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from antiphon.engine.model_runner import prefill
from antiphon.engine.model_runner.ar_model import PromptSpan
from antiphon.engine.model_runner.kv_cache import KVBudget
from antiphon.engine.model_runner.model_runner import ModelRunner
from antiphon.engine.plan import Prefill, Start, StepPlan
from antiphon.engine.runner import TOKEN_BUCKETS, token_buckets
from antiphon.nn.attention import Attend
from tests.engine.drive import Drive
from tests.engine.model_runner.test_model_runner import (
    MAX_POSITIONS,
    NUM_SLOTS,
    PROMPTS,
    OneCodeRequest,
    TwoStackModel,
)


class CountingModel(TwoStackModel):
    """Notes how many tokens each pass over the layers has, and which positions are embedded."""

    def __init__(self) -> None:
        super().__init__()
        self.passes: list[int] = []
        self.embedded: list[list[tuple[int, int]]] = []

    def embed_prompts(self, spans: Sequence[PromptSpan[OneCodeRequest]]) -> Tensor:
        self.embedded.append([(each.start, each.end) for each in spans])
        return super().embed_prompts(spans)

    def forward(
        self, states: Tensor, slots: Tensor, positions: Tensor, attends: Sequence[Attend]
    ) -> Tensor:
        self.passes.append(positions.numel())
        return super().forward(states, slots, positions, attends)


def counted(*, is_batched: bool = True) -> tuple[ModelRunner[OneCodeRequest], list[int]]:
    """Return a runner, and the sizes of its passes so far."""
    model = CountingModel()
    return ModelRunner(model, KVBudget(NUM_SLOTS, MAX_POSITIONS), is_batched=is_batched), (
        model.passes
    )


def codes_of_arrivals(runner: ModelRunner[OneCodeRequest]) -> list[dict[int, int]]:
    """Let requests arrive while others make frames; return the code of each slot, step by step."""
    drive, steps = Drive(runner), []
    slots: tuple[int, ...] = ()
    for slot, prompt in PROMPTS.items():
        slots = (*slots, slot)
        output = drive.step(slots, starts=[Start(slot, prompt)])
        steps.append({each: int(frame[0]) for each, frame in output.frames.items()})
        output = drive.step(slots)
        steps.append({each: int(frame[0]) for each, frame in output.frames.items()})
    return steps


def test_a_step_with_arrivals_is_one_pass() -> None:
    runner, passes = counted()
    codes_of_arrivals(runner)
    lengths = [prompt.num_positions for prompt in PROMPTS.values()]
    assert passes == [lengths[0] + 1, 1, lengths[1] + 2, 2, lengths[2] + 3, 3]


@pytest.mark.parametrize("most", [None, 16, 9])
def test_one_pass_makes_the_frames_of_separate_ones(
    most: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = codes_of_arrivals(counted(is_batched=False)[0])
    if most is not None:
        monkeypatch.setattr(prefill, "token_buckets", lambda num_slots: (most,))
    runner, passes = counted()
    assert codes_of_arrivals(runner) == expected
    assert most is None or most - NUM_SLOTS < max(passes) <= most


def test_rows_and_prompts_of_frames_made_before_share_a_pass() -> None:
    runner, passes = counted()
    drive = Drive(runner)
    made = drive.step((2,), starts=[Start(2, PROMPTS[2])]).frames[2]
    second = drive.step((2,)).frames[2]
    passes.clear()
    output = drive.step((2, 1), starts=[Start(1, PROMPTS[2], (made, second))])
    assert passes == [PROMPTS[2].num_positions + 2 + 2]
    assert torch.equal(*(torch.as_tensor(output.frames[slot]) for slot in (1, 2)))


def test_one_by_one_a_prompt_is_parted_where_its_blocks_and_what_is_common_end() -> None:
    model = CountingModel()
    runner = ModelRunner(model, KVBudget(NUM_SLOTS, MAX_POSITIONS), is_batched=False)
    prompt = replace(PROMPTS[1], num_common_positions=21)
    assert prompt.num_positions == 32
    Drive(runner).step((2,), starts=[Start(2, prompt)])
    expected = [[(0, 16)], [(16, 21)], [(21, 32)]]
    assert model.embedded == expected
    model.embedded.clear()
    blocks = tuple(range(4))
    prefills = (Prefill(1, 21, 32),)
    runner.launch(StepPlan(starts=(Start(1, prompt),), blocks={1: blocks}, prefills=prefills))
    assert model.embedded == expected[2:]


@pytest.mark.parametrize("num_slots", [1, 8, 256, 1600])
def test_a_pass_has_room_for_every_row_and_many_positions(num_slots: int) -> None:
    sizes = token_buckets(num_slots)
    assert [*sizes] == sorted(set(sizes))
    assert sizes[: len(TOKEN_BUCKETS)] == TOKEN_BUCKETS
    assert sizes[-1] == num_slots + TOKEN_BUCKETS[-1]
