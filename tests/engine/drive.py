"""Drives a runner by the simplest plans: blocks one after the other, prompts read at once."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from antiphon.contracts.prompt import Prompt
from antiphon.engine.plan import Append, Prefill, Start, StepOutput, StepPlan
from antiphon.engine.runner import Runner


@dataclass(slots=True)
class Generated:
    """Output of one request.

    Attributes:
        frames: frames in order, those that it goes on after included.
        end: ``stop``, ``length`` or ``error``; ``None`` before.
    """

    frames: list[NDArray[np.int64]] = field(default_factory=list)
    end: str | None = None

    @property
    def codes(self) -> list[list[int]]:
        return [frame.tolist() for frame in self.frames]

    @property
    def tokens(self) -> list[int]:
        return [int(frame[0]) for frame in self.frames]


def take(generated: Mapping[int, Generated], output: StepOutput, faults: Collection[int]) -> None:
    for slot, frame in output.frames.items():
        generated[slot].frames.append(frame)
    ends = (("stop", output.stopped), ("length", output.lengths), ("error", faults))
    for end, slots in ends:
        for slot in slots:
            assert generated[slot].end is None
            generated[slot].end = end


def generate(
    runner: Runner,
    prompts: Mapping[int, Prompt],
    max_frames: int = 25,
    *,
    before: Mapping[int, Sequence[NDArray[np.int64]]] | None = None,
    piece_positions: int | None = None,
    faulty: Collection[int] = (),
) -> dict[int, Generated]:
    """Start requests at once, in the slots that they are keyed by, and run each to its end.

    Args:
        max_frames: number of frames to stop after; the limit of a prompt may be lower.
        before: frames by slot that requests go on after.
        faulty: slots that may end with an error.
    """
    drive = Drive(runner, piece_positions=piece_positions)
    generated = {slot: Generated([*(before or {}).get(slot, ())]) for slot in prompts}
    starts = [Start(slot, each, tuple(generated[slot].frames)) for slot, each in prompts.items()]
    limits = {
        slot: min(max_frames, each.sampling.max_frames or max_frames)
        for slot, each in prompts.items()
    }
    while slots := [
        slot
        for slot, each in generated.items()
        if each.end is None and len(each.frames) < limits[slot]
    ]:
        take(generated, drive.step(slots, starts=starts), drive.faults)
        assert drive.faults <= {*faulty}
        starts = []
    drive.step(releases=tuple(prompts))
    return generated


def tokens_of(
    runner: Runner, prompts: Mapping[int, Prompt], max_frames: int = 300
) -> dict[int, list[int]]:
    """Return the first code of each frame that `generate` returns, by slot."""
    generated = generate(runner, prompts, max_frames, piece_positions=16)
    return {slot: each.tokens for slot, each in generated.items()}


@dataclass(slots=True)
class _Held:
    num_positions: int
    blocks: list[int] = field(default_factory=list)
    num_shared: int = 0


class Drive:
    """Plans and runs steps; what is given back is given out again first."""

    def __init__(self, runner: Runner, *, piece_positions: int | None = None) -> None:
        """Begin with all blocks free; a step reads at most ``piece_positions`` of a prompt."""
        assert runner.cache is not None
        self._runner = runner
        self._cache = runner.cache
        self._piece_positions = piece_positions
        self._free = [*reversed(range(self._cache.num_blocks))]
        self._held: dict[int, _Held] = {}
        self.faults: frozenset[int] = frozenset()
        """Slots of the last step that neither made a frame nor stopped: their numbers are NaN."""

    def blocks_of(self, slot: int) -> tuple[int, ...]:
        return tuple(self._held[slot].blocks)

    def step(
        self,
        slots: Sequence[int] = (),
        *,
        releases: Sequence[int] = (),
        starts: Sequence[Start] = (),
        appends: Sequence[Append] = (),
        shared: Mapping[int, Sequence[int]] | None = None,
    ) -> StepOutput:
        """Run a step; prompts are read in steps of their own before it, but for the last piece.

        ``shared`` are blocks by slot that another slot has filled with what its prompt begins with.
        """
        self._release(releases)
        blocks: dict[int, tuple[int, ...]] = {}
        for start in starts:
            first = list((shared or {}).get(start.slot, ()))
            num_positions = start.prompt.num_positions + len(start.frames)
            self._held[start.slot] = _Held(num_positions, first, len(first))
            blocks[start.slot] = tuple(first)
            self._give(start.slot, num_positions, blocks)
        for slot in slots:
            held = self._held[slot]
            held.num_positions = min(held.num_positions + 1, self._cache.max_positions)
            self._give(slot, held.num_positions, blocks)
        *before, last = self._prefills(starts)
        begin = (tuple(releases), tuple(starts), tuple(appends), blocks)
        for prefills in before:
            self._runner.launch(StepPlan(*begin, prefills)).result()
            begin = ((), (), (), {})
        output = self._runner.launch(StepPlan(*begin, last, tuple(slots))).result()
        self.faults = frozenset(slots) - output.frames.keys() - output.stopped
        return output

    def _release(self, slots: Sequence[int]) -> None:
        for slot in slots:
            held = self._held.pop(slot)
            self._free += held.blocks[held.num_shared :]

    def _give(self, slot: int, num_positions: int, blocks: dict[int, tuple[int, ...]]) -> None:
        held = self._held[slot]
        while len(held.blocks) * self._cache.block_positions < num_positions:
            held.blocks.append(self._free.pop())
            blocks[slot] = (*blocks.get(slot, ()), held.blocks[-1])

    def _prefills(self, starts: Sequence[Start]) -> list[tuple[Prefill, ...]]:
        pieces: list[list[Prefill]] = [[]]
        for each in starts:
            end = each.prompt.num_positions + len(each.frames)
            start = self._held[each.slot].num_shared * self._cache.block_positions
            size = self._piece_positions or max(1, end - start)
            for number, first in enumerate(range(start, end, size)):
                if number == len(pieces):
                    pieces.append([])
                pieces[number].append(Prefill(each.slot, first, min(first + size, end)))
        return [tuple(step) for step in pieces]
