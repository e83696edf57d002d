"""Keys and values of a slot of a paged cache, read in place if its blocks follow each other."""

from dataclasses import dataclass

from torch import Tensor

from antiphon.nn.attention import PagedCache


@dataclass(frozen=True, slots=True)
class CacheSpan:
    """First positions of a slot.

    Attributes:
        blocks: their blocks: a slice if they follow each other.
    """

    blocks: slice | Tensor
    num_visible: int

    @classmethod
    def of(cls, cache: PagedCache, slot: int, num_visible: int) -> "CacheSpan":
        """Look up the blocks of a slot's first positions."""
        blocks = cache.table[slot, : -(-num_visible // cache.block_positions)].long()
        first, *_ = numbers = blocks.tolist()
        is_range = numbers == [*range(first, first + len(numbers))]
        return cls(slice(first, first + len(numbers)) if is_range else blocks, num_visible)

    @classmethod
    def of_rows(cls, cache: PagedCache, slots: Tensor, positions: Tensor) -> list["CacheSpan"]:
        """Look up the blocks of slots up to a position each."""
        ends = zip(slots.tolist(), (positions + 1).tolist(), strict=True)
        return [cls.of(cache, *end) for end in ends]

    def read(self, cache: PagedCache, layer: int) -> tuple[Tensor, Tensor]:
        """Return keys and values, each ``[1, num_visible, heads, head_dim]``: views of a slice."""
        kept = cache.tensor[layer][:, self.blocks].flatten(1, 2)
        keys, values = kept[:, None, : self.num_visible]
        return keys, values
