"""Hashes of a prompt's prefixes, for the prefix cache."""

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
    """Hashes of a prompt.

    Attributes:
        blocks: hash of each full block together with all positions before it.
        common: hash of the common positions; ``None`` if they end at the end of a block, whose
            hash is enough.
        num_common: number of common positions; 0 without ``common``.
    """

    blocks: tuple[bytes, ...] = ()
    common: bytes | None = None
    num_common: int = 0

    @property
    def all(self) -> tuple[bytes, ...]:
        return self.blocks if self.common is None else (*self.blocks, self.common)


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
