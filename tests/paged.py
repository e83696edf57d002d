"""The toy with a cache that remembers what was put where, and notices what should not be there."""

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from antiphon.contracts.family import Family, LoadContext, Ref
from antiphon.contracts.prompt import Prompt
from antiphon.engine.plan import CacheShape, Start, StepPlan
from antiphon.engine.runner import PendingStep
from antiphon.families.registry import FAMILIES
from antiphon.families.toy import FAMILY as TOY
from antiphon.families.toy.talker import ToyRunner

SHAPE = CacheShape(num_blocks=24, block_positions=4, max_positions=96)

RESUMED: list[int] = []
"""How many frames each request had that came back to a slot."""


@dataclass(slots=True)
class _Table:
    """A slot's blocks.

    Attributes:
        prompt: of its request.
        num_needed: positions that must be there before its next frame.
        num_held: positions that are there.
        blocks: where they are.
        owner: nobody else's content is like this slot's.
    """

    prompt: Prompt
    num_needed: int
    num_held: int = 0
    blocks: list[int] = field(default_factory=list)
    owner: object = field(default_factory=object)

    def content(self, position: int) -> Any:
        """Return what a position must hold."""
        if position < len(self.prompt.position_keys):
            return self.prompt.position_keys[: position + 1]  # who reads the same may share it
        return (self.owner, position)

    def place(self, position: int) -> tuple[int, int]:
        number, offset = divmod(position, SHAPE.block_positions)
        return self.blocks[number], offset


class PagedToyRunner(ToyRunner):
    """Puts into its blocks what a model would, and looks at all of it before each frame."""

    cache = SHAPE

    def __init__(self, context: LoadContext) -> None:
        super().__init__(context)
        self._tables: dict[int, _Table] = {}
        self._memory: dict[tuple[int, int], Any] = {}

    def launch(self, plan: StepPlan) -> PendingStep:
        for slot in plan.releases:
            del self._tables[slot]
        for start in plan.starts:
            self._enter(start)
        for slot, blocks in plan.blocks.items():
            assert all(0 <= block < SHAPE.num_blocks for block in blocks)
            self._tables[slot].blocks += blocks
        for each in plan.prefills:
            table = self._tables[each.slot]
            table.num_held = each.start
            self._check(table)
            for _ in range(each.start, each.end):
                self._put(table)
        for slot in plan.decode_slots:
            table = self._tables[slot]
            table.num_held = max(table.num_held, table.num_needed)  # all of it may be shared
            self._check(table)
            self._put(table)
        return super().launch(plan)

    def _enter(self, start: Start) -> None:
        assert start.slot not in self._tables
        if start.frames:
            RESUMED.append(len(start.frames))
        num_needed = start.prompt.num_positions + len(start.frames)
        self._tables[start.slot] = _Table(start.prompt, num_needed)

    def _put(self, table: _Table) -> None:
        assert table.num_held < SHAPE.max_positions
        self._memory[table.place(table.num_held)] = table.content(table.num_held)
        table.num_held += 1

    def _check(self, table: _Table) -> None:
        for position in range(table.num_held):
            found = self._memory.get(table.place(position))
            assert found == table.content(position), "a position is not there, or not its own"


SPEECH = TOY.tasks["speech"]
FAMILY = Family(
    name="paged",
    title="The toy, with a small cache in blocks",
    tasks={
        "speech": replace(
            SPEECH,
            pipeline=(
                replace(SPEECH.pipeline[0], factory=Ref("tests.paged:PagedToyRunner")),
                SPEECH.pipeline[1],
            ),
        )
    },
)


def register(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FAMILIES, FAMILY.name, "tests.paged:FAMILY")
