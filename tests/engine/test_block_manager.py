"""Blocks: none lost, none given twice, shared only where all that stands before is equal."""

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from antiphon.contracts.prompt import Prompt
from antiphon.engine.block_manager import BlockManager, BlockPool, prefix_hashes
from antiphon.engine.plan import BlockCopy, CacheShape
from antiphon.engine.request import EngineRequest
from antiphon.telemetry.stage_status import EngineStats

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
        hashes = prefix_hashes(keys, BLOCK_POSITIONS).blocks
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
        hashes = prefix_hashes(keys, BLOCK_POSITIONS).blocks
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
    hashes = prefix_hashes(keys, 3).blocks
    assert len(hashes) == len(keys) // 3
    if changed < len(keys):
        other = [*keys]
        other[changed] ^= 1
        pairs = zip(hashes, prefix_hashes(other, 3).blocks, strict=True)
        assert [a == b for a, b in pairs] == [n < changed // 3 for n in range(len(hashes))]


def test_unreferenced_blocks_stay_cached_until_their_memory_is_needed() -> None:
    pool = BlockPool(4)
    hashes = prefix_hashes(range(6), 2).blocks
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


@given(st.integers(0, 12), st.integers(0, 12))
def test_common_positions_have_a_hash_where_no_block_ends(num_keys: int, num_common: int) -> None:
    hashes = prefix_hashes(range(num_keys), 4, num_common)
    assert (hashes.common is not None) == (num_common % 4 > 0 and num_common <= num_keys)
    plain = prefix_hashes(range(num_keys), 4)
    assert plain.common is None
    num_before = num_common // 4 if hashes.common else len(plain.blocks)
    pairs = zip(hashes.blocks, plain.blocks, strict=True)  # parted elsewhere, it is not the same
    assert [a == b for a, b in pairs] == [n < num_before for n in range(len(plain.blocks))]
    assert len(set(hashes.all)) == len(hashes.all)


class Manager(BlockManager):
    """Of blocks of four positions, which it may copy; requests are prefilled at once.

    Attributes:
        num_found: positions that the latest request need not compute.
    """

    num_found = 0

    def __init__(self, num_blocks: int = 8, *, copies: bool = True) -> None:
        super().__init__(CacheShape(num_blocks, 4, 32, copies_blocks=copies), EngineStats())

    def begin(self, *keys: int, num_common: int = 0) -> tuple[EngineRequest, BlockCopy | None]:
        data = Prompt(
            data=None,
            num_tokens=1,
            seed=0,
            num_positions=len(keys),
            position_keys=keys,
            num_common_positions=num_common,
        )
        request = EngineRequest(str(keys), data)
        self.add(request)
        assert self.num_missing(request) <= self.pool.num_available
        copy = self.allocate(request)
        self.num_found = request.table.num_computed
        if not request.table.is_prefilled:
            self.prefill(request, request.table.num_required)
        return request, copy


VOICE = (7, 7, 7, 7, 8, 8)


def test_what_is_common_is_copied_behind_the_blocks_that_are_shared() -> None:
    manager = Manager()
    first, copy = manager.begin(*VOICE, 1, 2, 3, num_common=6)
    assert copy is None
    assert manager.begin(*VOICE, 4, num_common=6)[1] is None  # not before the next plan
    manager.cache_written()
    other, copy = manager.begin(*VOICE, 5, 6, num_common=6)
    assert copy == BlockCopy(first.table.blocks[1], other.table.blocks[1])
    assert other.table.blocks[0] == first.table.blocks[0]
    assert other.table.blocks[1] not in first.table.blocks
    manager.cache_written()
    again, copy = manager.begin(*VOICE, 1, 2, 5, num_common=6)  # the block as a whole
    assert copy is None
    assert again.table.blocks[:2] == first.table.blocks[:2]


def test_only_what_is_copied_counts_as_computed() -> None:
    manager = Manager()
    manager.begin(*VOICE, 1, num_common=6)
    manager.cache_written()
    whole, copy = manager.begin(*VOICE, num_common=6)
    assert copy is not None
    assert manager.num_found == whole.prompt.num_positions
    assert manager.begin(7, 7, 7, 7, 8, 9, 1, num_common=6)[1] is None
    assert manager.begin(6, 7, 7, 7, 8, 8, 1, num_common=6)[1] is None
    _, copy = manager.begin(*VOICE, 2, 3, 4, num_common=6)
    assert copy is not None
    assert manager.num_found == 6


def test_a_runner_that_copies_nothing_is_not_asked_to() -> None:
    manager = Manager(copies=False)
    manager.begin(*VOICE, 1, num_common=6)
    manager.cache_written()
    assert manager.begin(*VOICE, 2, num_common=6)[1] is None


def test_a_source_that_is_evicted_for_its_own_copy_is_replaced_by_it() -> None:
    manager = Manager(num_blocks=2)
    first, _ = manager.begin(8, 8, 1, num_common=2)
    manager.cache_written()
    (source,) = first.table.blocks
    manager.free(first)
    other, copy = manager.begin(8, 8, 2, 3, 4, 5, num_common=2)  # needs both blocks
    assert copy is not None
    assert copy.source == source
    assert sorted(other.table.blocks) == [0, 1]
    manager.cache_written()
    manager.free(other)
    _, again = manager.begin(8, 8, 6, num_common=2)
    assert again is not None
    assert again.source == copy.target


def test_bad_numbers_are_not_copied_on() -> None:
    manager = Manager()
    first, _ = manager.begin(*VOICE, 1, num_common=6)
    manager.cache_written()
    other, copy = manager.begin(*VOICE, 2, num_common=6)
    assert copy is not None
    manager.pool.invalidate(other.table.hashes.all)
    manager.free(first)
    manager.free(other)
    third, copy = manager.begin(*VOICE, 3, num_common=6)
    assert copy is None
    assert manager.num_found == 0
    manager.pool.check_integrity([third.table.blocks])
