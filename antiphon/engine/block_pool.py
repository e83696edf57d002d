"""Who holds which block of the cache: equal beginnings of prompts hold the same blocks."""

from collections import deque
from collections.abc import Iterable, Sequence
from hashlib import blake2b

_KEY_BYTES = 8
_KEY_MASK = (1 << 8 * _KEY_BYTES) - 1
_NAME_BYTES = 16

BlockName = bytes
"""Says what a full block holds, and all that stands before it."""


def block_names(position_keys: Iterable[int], block_positions: int) -> tuple[BlockName, ...]:
    """Return the name of each full block of a prompt.

    Args:
        position_keys: see `antiphon.models.base.Prompt`.
        block_positions: positions in a block.
    """
    data = b"".join((int(key) & _KEY_MASK).to_bytes(_KEY_BYTES, "little") for key in position_keys)
    size = block_positions * _KEY_BYTES
    names, name = [], b""
    for start in range(0, len(data) - size + 1, size):
        name = blake2b(name + data[start : start + size], digest_size=_NAME_BYTES).digest()
        names.append(name)
    return tuple(names)


class BlockPool:
    """Gives out block numbers, and counts who holds them.

    A block that is published under a name can be found by it and shared. When nobody holds it any
    more it is kept for whoever asks for it again, until its memory is needed: first goes what has
    been unused longest. Whoever publishes sees to it that the block is completely written before
    anything that finds it is run.
    """

    def __init__(self, num_blocks: int) -> None:
        self._num_blocks = num_blocks
        self._free = deque(range(num_blocks))
        self._num_holders = [0] * num_blocks
        self._names: dict[int, BlockName] = {}
        self._by_name: dict[BlockName, int] = {}
        self._unused: dict[int, None] = {}  # published, held by nobody; the oldest first

    @property
    def num_available(self) -> int:
        """Blocks that `take` could give out now."""
        return len(self._free) + len(self._unused)

    def num_found(self, names: Sequence[BlockName]) -> tuple[int, int]:
        """Return how many blocks `find` would give, and how many of them are available now."""
        blocks = self._run_of(names)
        return len(blocks), sum(block in self._unused for block in blocks)

    def find(self, names: Sequence[BlockName]) -> list[int]:
        """Hold the published blocks of the longest beginning of ``names``; return them."""
        blocks = self._run_of(names)
        for block in blocks:
            self._unused.pop(block, None)
            self._num_holders[block] += 1
        return blocks

    def take(self, num_blocks: int) -> list[int]:
        """Hold as many fresh blocks; there must be as many available."""
        assert num_blocks <= self.num_available, "blocks are taken that are not there"
        blocks = []
        for _ in range(num_blocks):
            if not self._free:
                self._forget(next(iter(self._unused)))
            block = self._free.popleft()
            self._num_holders[block] = 1
            blocks.append(block)
        return blocks

    def publish(self, block: int, name: BlockName) -> None:
        """Let a held block be found; of two with the same name the first stays."""
        assert self._num_holders[block], "a block is published that nobody holds"
        if name not in self._by_name and block not in self._names:
            self._names[block] = name
            self._by_name[name] = block

    def withdraw(self, names: Iterable[BlockName]) -> None:
        """Let nobody find what was published under ``names``; who holds it keeps it."""
        for name in names:
            if (block := self._by_name.get(name)) is None:
                continue
            if block in self._unused:
                self._forget(block)
            else:
                del self._by_name[self._names.pop(block)]

    def give_back(self, blocks: Sequence[int]) -> None:
        """Hold ``blocks``, in the order of their positions, no more."""
        for block in reversed(blocks):  # the end of a prompt is forgotten before its beginning
            assert self._num_holders[block], "a block is given back twice"
            self._num_holders[block] -= 1
            if self._num_holders[block] == 0:
                if block in self._names:
                    self._unused[block] = None
                else:
                    self._free.append(block)

    def check_integrity(self, tables: Iterable[Sequence[int]]) -> None:
        """Assert that no block is lost, and that each is held as often as ``tables`` say."""
        num_holders = [0] * self._num_blocks
        for table in tables:
            assert len(set(table)) == len(table), "a block is twice in one table"
            for block in table:
                num_holders[block] += 1
        assert num_holders == self._num_holders, "blocks are not counted right"
        held = {block for block, number in enumerate(num_holders) if number}
        parts = [*self._free, *self._unused, *held]
        assert sorted(parts) == list(range(self._num_blocks)), "a block is lost, or there twice"
        assert {name: block for block, name in self._names.items()} == self._by_name
        assert set(self._unused) <= set(self._names)

    def _run_of(self, names: Sequence[BlockName]) -> list[int]:
        blocks = []
        for name in names:
            if (block := self._by_name.get(name)) is None:
                break
            blocks.append(block)
        return blocks

    def _forget(self, block: int) -> None:
        del self._unused[block]
        del self._by_name[self._names.pop(block)]
        self._free.append(block)
