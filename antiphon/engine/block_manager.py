"""KV block allocation and prefix caching."""

import struct
from collections import deque
from collections.abc import Iterable, Sequence
from hashlib import blake2b

from antiphon.contracts.prompt import Prompt
from antiphon.engine.plan import BlockCopy, CacheShape
from antiphon.engine.request import BlockTable, EngineRequest, PrefixHashes
from antiphon.errors import invalid
from antiphon.telemetry.stage_status import EngineStats

_KEY_BYTES = 8
_KEY_MASK = (1 << 8 * _KEY_BYTES) - 1
_HASH_BYTES = 16
_COMMON = b"common"


class BlockPool:
    """Allocates blocks by number and counts references to them.

    A block that is cached under its hash can be looked up and shared, and under another hash its
    first positions can be copied. When its reference count falls to 0 it stays cached until its
    memory is needed: the least recently used is evicted first. A block must be cached only after
    the step that writes it is planned.
    """

    def __init__(self, num_blocks: int) -> None:
        self.num_blocks = num_blocks
        self._free = deque(range(num_blocks))
        self._ref_counts = [0] * num_blocks
        self._hashes: dict[int, tuple[bytes, ...]] = {}
        self._by_hash: dict[bytes, int] = {}
        self._evictable: dict[int, None] = {}  # cached, without references; the oldest first

    @property
    def num_available(self) -> int:
        """Blocks that `allocate` could return now."""
        return len(self._free) + len(self._evictable)

    def count_cached(self, hashes: Sequence[bytes]) -> tuple[int, int]:
        """Return how many blocks `lookup` would give, and how many of them are available now."""
        blocks = self._cached_prefix(hashes)
        return len(blocks), sum(block in self._evictable for block in blocks)

    def lookup(self, hashes: Sequence[bytes]) -> list[int]:
        """Reference the cached blocks of the longest prefix of ``hashes``; return them."""
        blocks = self._cached_prefix(hashes)
        for block in blocks:
            self._evictable.pop(block, None)
            self._ref_counts[block] += 1
        return blocks

    def find(self, block_hash: bytes) -> int | None:
        """Return the block cached under a hash, without a reference; mark it most recently used.

        It can be copied in the plan being made: copies are done before all writing.
        """
        block = self._by_hash.get(block_hash)
        if block is not None and block in self._evictable:
            del self._evictable[block]
            self._evictable[block] = None
        return block

    def allocate(self, num_blocks: int) -> list[int]:
        """Return available blocks with one reference each."""
        assert num_blocks <= self.num_available, "more blocks are allocated than are available"
        blocks = []
        for _ in range(num_blocks):
            if not self._free:
                self._evict(next(iter(self._evictable)))
            block = self._free.popleft()
            self._ref_counts[block] = 1
            blocks.append(block)
        return blocks

    def cache(self, block: int, block_hash: bytes) -> None:
        """Cache a referenced block; of two with the same hash the first stays."""
        assert self._ref_counts[block], "a block without references is cached"
        if block_hash not in self._by_hash:
            self._hashes[block] = (*self._hashes.get(block, ()), block_hash)
            self._by_hash[block_hash] = block

    def invalidate(self, hashes: Iterable[bytes]) -> None:
        """Remove blocks from the cache; references to them stay."""
        for block_hash in hashes:
            if (block := self._by_hash.get(block_hash)) is None:
                continue
            if block in self._evictable:
                self._evict(block)
            else:
                self._forget(block)

    def free(self, blocks: Sequence[int]) -> None:
        """Drop one reference to each block; ``blocks`` are in the order of their positions."""
        for block in reversed(blocks):  # the end of a prompt is evicted before its beginning
            assert self._ref_counts[block], "a block is freed twice"
            self._ref_counts[block] -= 1
            if self._ref_counts[block] == 0:
                if block in self._hashes:
                    self._evictable[block] = None
                else:
                    # In order: a CPU reads blocks that follow each other without a copy.
                    self._free.appendleft(block)

    @property
    def usage(self) -> float:
        return 1 - self.num_available / self.num_blocks

    def check_integrity(self, tables: Iterable[Sequence[int]]) -> None:
        """Assert that no block is lost, and that reference counts are those of ``tables``."""
        ref_counts = [0] * self.num_blocks
        for table in tables:
            assert len(set(table)) == len(table), "a block is twice in one table"
            for block in table:
                ref_counts[block] += 1
        assert ref_counts == self._ref_counts, "reference counts are wrong"
        used = {block for block, count in enumerate(ref_counts) if count}
        parts = [*self._free, *self._evictable, *used]
        assert sorted(parts) == list(range(self.num_blocks)), "a block is lost, or there twice"
        by_hash = {
            block_hash: block for block, hashes in self._hashes.items() for block_hash in hashes
        }
        assert by_hash == self._by_hash
        assert set(self._evictable) <= set(self._hashes)

    def _cached_prefix(self, hashes: Sequence[bytes]) -> list[int]:
        blocks = []
        for block_hash in hashes:
            if (block := self._by_hash.get(block_hash)) is None:
                break
            blocks.append(block)
        return blocks

    def _evict(self, block: int) -> None:
        del self._evictable[block]
        self._forget(block)
        self._free.append(block)

    def _forget(self, block: int) -> None:
        for block_hash in self._hashes.pop(block):
            del self._by_hash[block_hash]


class BlockManager:
    """Manages the block tables of all requests: cached blocks, then the request's own.

    Attributes:
        max_replayed: limit of positions of frames made before a preemption that a step computes
            again.
    """

    def __init__(self, shape: CacheShape, stats: EngineStats) -> None:
        self.pool = BlockPool(shape.num_blocks)
        self.block_positions = shape.block_positions
        self.max_replayed = shape.max_positions
        if shape.replayed_positions is not None:
            self.max_replayed = shape.replayed_positions
        self._stats = stats
        self._copies = shape.copies_blocks
        self._max_positions = min(shape.max_positions, shape.num_blocks * shape.block_positions)
        self._to_cache: list[EngineRequest] = []

    def max_frames(self, prompt: Prompt) -> int:
        """Return how many frames fit after a prompt; raises InvalidRequestError."""
        num_frames = self._max_positions - prompt.num_positions
        if num_frames < 1:
            room = f"the model has room for {self._max_positions - 1} and an answer"
            reason = f"it takes {prompt.num_positions} positions; {room}"
            raise invalid("input", reason, "context_length_exceeded")
        if (least := prompt.sampling.least_frames) > num_frames:
            param = "max_new_tokens" if prompt.sampling.ignore_eos else "min_tokens"
            room = f"after this prompt the model's context has room for {num_frames}"
            raise invalid(param, f"{least} frames; {room}")
        return num_frames

    def add(self, request: EngineRequest) -> None:
        """Prepare the table of a new request, or refuse it as `max_frames` does."""
        prompt, room = request.prompt, self.max_frames(request.prompt)
        request.max_frames = room if request.max_frames is None else min(request.max_frames, room)
        keys = prompt.position_keys[: prompt.num_positions]
        num_common = prompt.num_common_positions if self._copies else 0
        request.table.hashes = prefix_hashes(keys, self.block_positions, num_common)
        request.table.num_required = prompt.num_positions

    def num_missing(self, request: EngineRequest) -> int:
        """Return the number of available blocks that `allocate` needs."""
        num_found, num_evictable = self.pool.count_cached(request.table.hashes.blocks)
        return self._num_blocks_for(request) - num_found + num_evictable

    def allocate(self, request: EngineRequest) -> BlockCopy | None:
        """Allocate the blocks of all positions up to the next frame's, cached ones where possible.

        Returns:
            Copy of common positions for the plan being made; they count as computed.
        """
        table, prompt = request.table, request.prompt
        assert not table.blocks, "the request has its blocks already"
        table.blocks = self.pool.lookup(table.hashes.blocks)
        table.num_cached = num_found = len(table.blocks)
        table.num_computed = num_found * self.block_positions
        source = self._with_common(table)
        if source is not None:
            table.num_computed = table.hashes.num_common
            self._to_cache.append(request)  # its copy, if the source is evicted here
        table.num_required = prompt.num_positions + request.num_frames
        if not request.frames:  # a preempted request finds its own blocks: no hit of the cache
            self._stats.prefix_cache_queries += prompt.num_positions
            self._stats.prefix_cache_hits += table.num_computed
        table.blocks += self.pool.allocate(self._num_blocks_for(request) - len(table.blocks))
        self._update_capacity(request)
        return None if source is None else BlockCopy(source, table.blocks[num_found])

    def append_block(self, request: EngineRequest) -> int:
        (block,) = self.pool.allocate(1)
        request.table.blocks.append(block)
        self._update_capacity(request)
        return block

    def prefill_end(self, request: EngineRequest, num_positions: int, num_replayed: int) -> int:
        """Return the end of a part of a prefill that begins at ``num_computed``.

        A part of a prompt ends between blocks, so that the split does not change keys and values,
        not even by rounding.

        Args:
            num_replayed: limit of positions of frames that were made before a preemption.
        """
        start, num_prompt = request.table.num_computed, request.prompt.num_positions
        end = min(request.table.num_required, start + num_positions)
        if end < num_prompt:
            return end - end % self.block_positions
        return min(end, max(start, num_prompt) + num_replayed)

    def prefill(self, request: EngineRequest, end: int) -> None:
        """Record that the plan being made computes all positions before ``end``."""
        request.table.num_computed = end
        hashes = request.table.hashes
        if request.table.num_cached < len(hashes.blocks) or hashes.common is not None:
            self._to_cache.append(request)

    def cache_written(self) -> None:
        """Cache the blocks that the plan before this one writes."""
        for request in self._to_cache:
            table, hashes = request.table, request.table.hashes
            num_written = table.num_computed // self.block_positions
            num_full = min(num_written, len(hashes.blocks), len(table.blocks))
            for index in range(table.num_cached, num_full):
                self.pool.cache(table.blocks[index], hashes.blocks[index])
            table.num_cached = max(table.num_cached, num_full)
            if hashes.common is not None and table.num_computed >= hashes.num_common:
                last = hashes.num_common // self.block_positions
                self.pool.cache(table.blocks[last], hashes.common)
        self._to_cache.clear()

    def free(self, request: EngineRequest) -> None:
        """Free the request's blocks; later plans may allocate them to others."""
        table = request.table
        self.pool.free(table.blocks)
        table.blocks = []
        table.num_cached = table.num_computed = table.frames_capacity = 0

    def _with_common(self, table: BlockTable) -> int | None:
        """Return the cached block of common positions after the blocks that were found."""
        hashes = table.hashes
        if hashes.common is None or hashes.num_common // self.block_positions != len(table.blocks):
            return None
        return self.pool.find(hashes.common)

    def _num_blocks_for(self, request: EngineRequest) -> int:
        num_positions = request.prompt.num_positions + request.num_frames + 1
        return -(-num_positions // self.block_positions)

    def _update_capacity(self, request: EngineRequest) -> None:
        num_positions = len(request.table.blocks) * self.block_positions
        request.table.frames_capacity = num_positions - request.prompt.num_positions


def prefix_hashes(
    position_keys: Sequence[int], block_positions: int, num_common: int = 0
) -> PrefixHashes:
    """Hash the prefixes of a prompt.

    A block in which the common positions end is computed in two parts. Its hash includes the place
    where they end: with another split, the same positions may differ by rounding.

    Args:
        num_common: number of positions whose keys and values may be copied.
    """
    keys = [int(key) & _KEY_MASK for key in position_keys]
    data = struct.pack(f"<{len(keys)}Q", *keys)
    size, parted, place = block_positions * _KEY_BYTES, *divmod(num_common, block_positions)
    if num_common > len(position_keys):
        place = 0
    blocks: list[bytes] = []
    common, parent = None, b""
    for index, start in enumerate(range(0, len(data), size)):
        salt = b""
        if place and index == parted:
            salt = place.to_bytes(_KEY_BYTES, "little")
            common = _hash(parent, data[start : num_common * _KEY_BYTES], salt + _COMMON)
        if start + size <= len(data):
            parent = _hash(parent, data[start : start + size], salt)
            blocks.append(parent)
    return PrefixHashes(tuple(blocks), common, num_common if common else 0)


def _hash(parent: bytes, data: bytes, salt: bytes) -> bytes:
    return blake2b(parent + data, digest_size=_HASH_BYTES, salt=salt).digest()
