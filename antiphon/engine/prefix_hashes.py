"""Under which hashes the beginning of a prompt is looked up in the prefix cache."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

_KEY_BYTES = 8
_KEY_MASK = (1 << 8 * _KEY_BYTES) - 1
_HASH_BYTES = 16
_COMMON = b"common"


@dataclass(frozen=True, slots=True)
class PrefixHashes:
    """Of a prompt.

    Attributes:
        blocks: of each full block, and of all that stands before the block.
        common: of the common positions, and of no other beginning; ``None`` if they end where a
            block does, so that they need none of their own.
        num_common: how many positions that are; 0 without ``common``.
    """

    blocks: tuple[bytes, ...] = ()
    common: bytes | None = None
    num_common: int = 0

    @property
    def all(self) -> tuple[bytes, ...]:
        """All of them."""
        return self.blocks if self.common is None else (*self.blocks, self.common)


def prefix_hashes(
    position_keys: Sequence[int], block_positions: int, num_common: int = 0
) -> PrefixHashes:
    """Hash the beginnings of a prompt.

    A block in which the common positions end is computed in two parts. It is hashed with the place
    where they end: parted elsewhere, the same positions may differ by rounding.

    Args:
        position_keys: see `antiphon.contracts.prompt.Prompt`.
        block_positions: positions in a block.
        num_common: positions whose keys and values may be copied; see `Prompt`.
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
