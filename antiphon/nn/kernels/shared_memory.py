"""Shared memory of programs, and the number of loads in flight that fit into it."""

from functools import cache

from torch import Tensor

SPARE_BYTES = 2048
"""Reserved for sums across the warps of a program."""

TURING_BYTES = 64 * 1024
"""Of a GPU of compute capability 7.5."""
_HOPPER_BYTES = 227 * 1024
_MIN_STAGES = 2


def max_shared_bytes(tensor: Tensor) -> int:
    """Return the shared memory available to a program on the device of a tensor."""
    return _max_shared_bytes(tensor.device.index or 0) if tensor.is_cuda else _HOPPER_BYTES


@cache
def _max_shared_bytes(index: int) -> int:
    import triton

    properties = triton.runtime.driver.active.utils.get_device_properties(index)
    num_bytes: int = properties["max_shared_mem"]
    return num_bytes


def stages_within(wanted: int, block_bytes: int, num_bytes: int) -> int:
    """Return the number of blocks that a loop may have in flight.

    Args:
        block_bytes: size of both factors of one iteration.
        num_bytes: size of the shared memory.
    """
    # Before Hopper, whose instructions read shared memory, the block in use is in registers.
    num_in_registers = 0 if num_bytes >= _HOPPER_BYTES else 1
    num_blocks = (num_bytes - SPARE_BYTES) // block_bytes
    return max(_MIN_STAGES, min(wanted, num_blocks + num_in_registers))
