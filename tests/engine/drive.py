"""Drives a runner by the simplest plans: blocks one after the other, prompts read at once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from antiphon.engine.plan import Append, Prefill, Start, StepOutput, StepPlan
from antiphon.engine.runner import Runner


@dataclass(slots=True)
class _Held:
    """What a slot has."""

    num_positions: int
    blocks: list[int] = field(default_factory=list)
    num_shared: int = 0


class Drive:
    """Plans and runs steps; what is given back is given out again first."""

    def __init__(self, runner: Runner, *, piece_positions: int | None = None) -> None:
        """Begin with all blocks free.

        Args:
            runner: whose slots are all free.
            piece_positions: positions of a prompt that a step reads; ``None`` for all.
        """
        assert runner.cache is not None
        self._runner = runner
        self._cache = runner.cache
        self._piece_positions = piece_positions
        self._free = [*reversed(range(self._cache.num_blocks))]
        self._held: dict[int, _Held] = {}
        self.faults: frozenset[int] = frozenset()
        """Slots of the last step that neither made a frame nor stopped: their numbers are NaN."""

    def blocks_of(self, slot: int) -> tuple[int, ...]:
        """Return the blocks that a slot holds."""
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
        """Return the prefills of each step, of at least one."""
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
