"""Blocks: none lost, none given twice, shared only where all that stands before is equal."""

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from antiphon.engine.block_pool import BlockPool, block_names

BLOCK_POSITIONS = 2
NUM_BLOCKS = 8


class Pools(RuleBasedStateMachine):
    """Tables of random prompts, and what each block was written with."""

    tables = Bundle("tables")

    def __init__(self) -> None:
        super().__init__()
        self.pool = BlockPool(NUM_BLOCKS)
        self.held: dict[int, list[int]] = {}
        self.written: dict[int, tuple[int, ...]] = {}
        self.num_tables = 0

    @rule(target=tables, keys=st.lists(st.integers(0, 1), max_size=10), publishes=st.booleans())
    def begin(self, keys: list[int], publishes: bool) -> int:
        names = block_names(keys, BLOCK_POSITIONS)
        num_found, num_unused = self.pool.num_found(names)
        table: list[int] = []
        if len(names) - num_found + num_unused <= self.pool.num_available:
            table = self.pool.find(names)
            assert len(table) == num_found
            for index, block in enumerate(table):
                assert self.written[block] == tuple(keys[: (index + 1) * BLOCK_POSITIONS])
            fresh = self.pool.take(len(names) - num_found)
            assert not set(fresh) & {block for other in self.held.values() for block in other}
            table += fresh
            for index in range(num_found, len(names)):
                self.written[table[index]] = tuple(keys[: (index + 1) * BLOCK_POSITIONS])
                if publishes:
                    self.pool.publish(table[index], names[index])
        self.num_tables += 1
        self.held[self.num_tables] = table
        return self.num_tables

    @rule(number=consumes(tables))
    def end(self, number: int) -> None:
        self.pool.give_back(self.held.pop(number))

    @rule(keys=st.lists(st.integers(0, 1), max_size=10))
    def withdraw(self, keys: list[int]) -> None:
        names = block_names(keys, BLOCK_POSITIONS)
        self.pool.withdraw(names)
        assert self.pool.num_found(names) == (0, 0)

    @rule(number=tables)
    def grow(self, number: int) -> None:
        if self.pool.num_available:
            (block,) = self.pool.take(1)
            self.written[block] = (-number, block)
            self.held[number].append(block)

    @invariant()
    def nothing_is_lost(self) -> None:
        self.pool.check_integrity(self.held.values())
        held = {block for table in self.held.values() for block in table}
        assert self.pool.num_available == NUM_BLOCKS - len(held)


TestPools = Pools.TestCase
TestPools.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


@given(st.lists(st.integers(-(2**63), 2**64 - 1), max_size=12), st.integers(0, 11))
def test_names_say_all_that_stands_before(keys: list[int], changed: int) -> None:
    names = block_names(keys, 3)
    assert len(names) == len(keys) // 3
    if changed < len(keys):
        other = [*keys]
        other[changed] ^= 1
        pairs = zip(names, block_names(other, 3), strict=True)
        assert [a == b for a, b in pairs] == [n < changed // 3 for n in range(len(names))]


def test_what_nobody_holds_is_found_again_until_its_memory_is_needed() -> None:
    pool = BlockPool(4)
    names = block_names(range(6), 2)
    table = pool.take(3)
    for block, name in zip(table, names, strict=True):
        pool.publish(block, name)
    pool.give_back(table)
    assert pool.find(names) == table
    pool.give_back(table)
    (last, over) = pool.take(2)  # the free one, then the end of the prompt
    assert over == table[2]
    assert pool.find(names) == table[:2]
    pool.check_integrity([[last], [over], table[:2]])
