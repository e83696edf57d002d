"""Size of the KV cache in a GPU's memory."""

BLOCK_POSITIONS = 16
_MIB = 2**20
_GIB = 2**30
# Allocated after the cache: the codec, CUDA graphs, encoders, and scratch memory.
_MAX_RESERVE_BYTES, _RESERVE_SHARE = 10 * _GIB, 0.15
SLOT_RESERVE_BYTES = 16 * _MIB  # the codec's state of each slot and its share of batches


def num_blocks_of(num_positions: int) -> int:
    """Return how many blocks the positions of one request take."""
    return -(-num_positions // BLOCK_POSITIONS)


def num_bytes_left(num_free: int, num_total: int, *, utilization: float, num_slots: int) -> int:
    """Return the bytes that the cache may take of a GPU's memory; negative if it is full.

    Args:
        num_free: free bytes once the model's weights are loaded.
        utilization: share of its memory that may be in use once all is loaded.
        num_slots: requests that run at once.
    """
    reserve = min(_RESERVE_SHARE * num_total, _MAX_RESERVE_BYTES)
    reserve += num_slots * SLOT_RESERVE_BYTES
    return int(num_free - (1 - utilization) * num_total - reserve)
