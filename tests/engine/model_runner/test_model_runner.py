"""The runner drives any autoregressive model: here two transformers in series, one code a frame."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from numpy.typing import NDArray
from torch import Tensor

from antiphon.contracts.prompt import Prompt
from antiphon.engine.model_runner.ar_model import (
    FRAME,
    STOP,
    ARModel,
    Codes,
    Frames,
    Inputs,
    PromptSpan,
    SlotStart,
)
from antiphon.engine.model_runner.kv_cache import KVBudget
from antiphon.engine.model_runner.model_runner import ModelRunner
from antiphon.engine.plan import FRAME_STORE_FRAMES, Start, StepPlan
from antiphon.nn.attention import Attend, KVShape
from antiphon.nn.device_writes import PackedUpload
from antiphon.nn.sampler import gumbel_noise
from antiphon.nn.transformer import Transformer
from tests.engine.drive import Drive
from tests.nn.test_transformer import PLAIN, made_weights

NUM_SLOTS, MAX_POSITIONS, VOCAB, END = 3, 64, 30, 0
MAX_FRAMES = 12


@dataclass(slots=True)
class OneCodeRequest:
    """A prompt of codes, and those made before."""

    codes: Codes
    num_observed: int = 0
    is_closed: bool = False


class TwoStackModel(ARModel[OneCodeRequest]):
    """A model whose keys and values are in two stacks of different shapes."""

    def __init__(self) -> None:
        super().__init__(
            torch.zeros(0),
            width=PLAIN.hidden_size,
            num_slots=NUM_SLOTS,
            frame_size=1,
            max_positions=MAX_POSITIONS,
        )
        self.uses_kernels = False
        self.num_exact_rows = 2
        configs = (PLAIN, replace(PLAIN, num_layers=1, num_kv_heads=1, rotary_dim=4))
        self.stacks = []
        for config in configs:
            weights = made_weights(config, has_norms=True, has_bias=False)
            named = {f"model.{name}": each for name, each in weights.items()}
            self.stacks.append(Transformer.of(named, "model", config, MAX_POSITIONS))
        self.table = torch.randn(VOCAB, self.width, generator=torch.Generator().manual_seed(3))
        self.pending = torch.zeros(NUM_SLOTS + 1, self.width)

    @property
    def kv_shapes(self) -> tuple[KVShape, ...]:
        return tuple(stack.kv_shape for stack in self.stacks)

    def open(self, prompt: Prompt, frames: Codes) -> OneCodeRequest:
        return OneCodeRequest(np.concatenate((prompt.data, frames[:, 0])))

    def close(self, request: OneCodeRequest) -> None:
        assert not request.is_closed
        request.is_closed = True

    def observe(
        self, requests: Sequence[OneCodeRequest], frames: Codes, numbers: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        for request in requests:
            assert not request.is_closed
            request.num_observed += 1
        is_last: NDArray[np.bool_] = numbers >= MAX_FRAMES
        return is_last

    def start(self, starts: Sequence[SlotStart[OneCodeRequest]], uploads: PackedUpload) -> None:
        for each in starts:
            position = each.prompt.num_positions + each.next_frame
            self.pending[each.slot] = self.table[each.request.codes[position]]

    def embed_prompts(self, spans: Sequence[PromptSpan[OneCodeRequest]]) -> Tensor:
        codes = np.concatenate([each.request.codes[each.start : each.end] for each in spans])
        return self.table[torch.from_numpy(codes)]

    def sampling_shape(self, slots: Sequence[int]) -> None:
        return None

    def next_states(self, slots: Tensor) -> Tensor:
        return self.pending[slots]

    def forward(
        self, states: Tensor, slots: Tensor, positions: Tensor, attends: Sequence[Attend]
    ) -> Tensor:
        for stack, attend in zip(self.stacks, attends, strict=True):
            states = stack(states, stack.rope.at(positions), attend)
        return states

    def sample(self, hidden: Tensor, inputs: Inputs, sampling: None) -> Frames:
        seeds = self.slots.seeds[inputs.slots]
        noise = gumbel_noise(seeds, inputs.frames, torch.arange(1), VOCAB)[:, 0]
        frames = Frames.empty(len(hidden), self.slots)
        best = torch.max(hidden @ self.table.T * 0.3 + noise, dim=-1)
        frames.scores[:, 0], frames.codes[:, 0] = best.values, best.indices
        return frames

    def commit(self, frames: Frames, inputs: Inputs, *, is_replay: bool) -> None:
        codes = frames.codes[:, :1]
        self.pending[inputs.slots] = F.embedding(codes[:, 0], self.table)
        if not is_replay:
            self.slots.frame_store[inputs.slots, inputs.frames % FRAME_STORE_FRAMES] = codes
        self.slots.advance(inputs.slots, inputs.positions, inputs.frames)
        frames.codes[:, -1] = torch.where(codes[:, 0] == END, STOP, FRAME)


def runner(*, is_batched: bool | None = False) -> ModelRunner[OneCodeRequest]:
    return ModelRunner(TwoStackModel(), KVBudget(NUM_SLOTS, MAX_POSITIONS), is_batched=is_batched)


def prompt_of(seed: int, length: int) -> Prompt:
    """Make a prompt of random codes, the last of which the first frame is made from."""
    data = np.random.default_rng(seed).integers(1, VOCAB, length)
    return Prompt(data=data, num_tokens=length, seed=seed, num_positions=length - 1)


PROMPTS = {2: prompt_of(1, 20), 0: prompt_of(2, 3), 1: prompt_of(3, 33)}


def made(driven: ModelRunner[OneCodeRequest], starts: Sequence[Start]) -> dict[int, list[int]]:
    """Run requests to their ends; return the codes of each slot, those made before included."""
    drive = Drive(driven, piece_positions=16)
    codes = {each.slot: [int(frame[0]) for frame in each.frames] for each in starts}
    waiting, begin = set(codes), tuple(starts)
    while waiting:
        output = drive.step(sorted(waiting), starts=begin)
        begin = ()
        for slot, frame in output.frames.items():
            codes[slot].append(int(frame[0]))
        waiting -= output.stopped | output.lengths
        assert not drive.faults
    drive.step(releases=tuple(codes))
    return codes


@pytest.mark.parametrize("is_batched", [False, True, None])
def test_requests_alone_and_together_make_the_same_frames(is_batched: bool | None) -> None:
    starts = [Start(slot, prompt) for slot, prompt in PROMPTS.items()]
    together = made(runner(is_batched=is_batched), starts)
    assert any(len(codes) == MAX_FRAMES for codes in together.values())
    assert len({tuple(codes) for codes in together.values()}) == len(PROMPTS)
    for start in starts:
        alone = made(runner(is_batched=is_batched), [replace(start, slot=0)])
        assert alone[0] == together[start.slot]


@pytest.mark.parametrize("is_batched", [False, True, None])
def test_requests_go_on_after_a_preemption(is_batched: bool | None) -> None:
    for prompt in PROMPTS.values():
        driven = runner(is_batched=is_batched)
        whole = made(driven, [Start(1, prompt)])[1]
        for number in range(1, len(whole)):
            before = tuple(np.array([code]) for code in whole[:number])
            assert made(driven, [Start(2, prompt, before)])[2] == whole


def test_a_request_is_let_go_once_its_frames_in_flight_are_observed() -> None:
    driven = runner()
    opened: list[OneCodeRequest] = []
    begin = driven._model.open

    def open_and_note(prompt: Prompt, frames: Codes) -> OneCodeRequest:
        opened.append(begin(prompt, frames))
        return opened[-1]

    driven._model.open = open_and_note  # type: ignore[method-assign]
    drive = Drive(driven)
    drive.step([0], starts=[Start(0, PROMPTS[0])])
    late = driven.launch(StepPlan(decode_slots=(0,)))
    later = driven.launch(StepPlan(releases=(0,)))
    last = driven.launch(StepPlan())
    assert not opened[0].is_closed
    late.result()
    assert opened[0].num_observed == 2
    assert opened[0].is_closed
    later.result()
    last.result()
