"""Blocks: none lost, none given twice, shared only where all that stands before is equal."""

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from antiphon.engine.block_manager import BlockPool, block_hashes

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

    @rule(target=tables, keys=st.lists(st.integers(0, 1), max_size=10), caches=st.booleans())
    def begin(self, keys: list[int], caches: bool) -> int:
        hashes = block_hashes(keys, BLOCK_POSITIONS)
        num_found, num_evictable = self.pool.count_cached(hashes)
        table: list[int] = []
        if len(hashes) - num_found + num_evictable <= self.pool.num_available:
            table = self.pool.lookup(hashes)
            assert len(table) == num_found
            for index, block in enumerate(table):
                assert self.written[block] == tuple(keys[: (index + 1) * BLOCK_POSITIONS])
            fresh = self.pool.allocate(len(hashes) - num_found)
            assert not set(fresh) & {block for other in self.held.values() for block in other}
            table += fresh
            for index in range(num_found, len(hashes)):
                self.written[table[index]] = tuple(keys[: (index + 1) * BLOCK_POSITIONS])
                if caches:
                    self.pool.cache(table[index], hashes[index])
        self.num_tables += 1
        self.held[self.num_tables] = table
        return self.num_tables

    @rule(number=consumes(tables))
    def end(self, number: int) -> None:
        self.pool.free(self.held.pop(number))

    @rule(keys=st.lists(st.integers(0, 1), max_size=10))
    def invalidate(self, keys: list[int]) -> None:
        hashes = block_hashes(keys, BLOCK_POSITIONS)
        self.pool.invalidate(hashes)
        assert self.pool.count_cached(hashes) == (0, 0)

    @rule(number=tables)
    def grow(self, number: int) -> None:
        if self.pool.num_available:
            (block,) = self.pool.allocate(1)
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
def test_a_hash_covers_all_positions_before(keys: list[int], changed: int) -> None:
    hashes = block_hashes(keys, 3)
    assert len(hashes) == len(keys) // 3
    if changed < len(keys):
        other = [*keys]
        other[changed] ^= 1
        pairs = zip(hashes, block_hashes(other, 3), strict=True)
        assert [a == b for a, b in pairs] == [n < changed // 3 for n in range(len(hashes))]


def test_unreferenced_blocks_stay_cached_until_their_memory_is_needed() -> None:
    pool = BlockPool(4)
    hashes = block_hashes(range(6), 2)
    table = pool.allocate(3)
    for block, each in zip(table, hashes, strict=True):
        pool.cache(block, each)
    pool.free(table)
    assert pool.lookup(hashes) == table
    pool.free(table)
    (last, over) = pool.allocate(2)  # the free one, then the end of the prompt
    assert over == table[2]
    assert pool.lookup(hashes) == table[:2]
    pool.check_integrity([[last], [over], table[:2]])
