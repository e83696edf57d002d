"""Shares of a GPU's memory once weights are loaded: KV cache, and what is allocated after it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from antiphon.contracts.family import Product
from antiphon.errors import ModelLoadError

_MIB = 2**20
_GIB = 2**30
CONTEXT_BYTES = 780 * _MIB
"""CUDA itself with the kernels and scratch memory of loading, 718 MiB measured on an H200 and less
on smaller GPUs, and what stays unused between tensors."""
SLOT_RESERVE_BYTES = 16 * _MIB  # the codec's state of each slot and its share of batches
# CUDA graphs, the passes of prompts and codec, products' scratch memory and further kernels. Two
# slots of a model of 1.7e9 weights took 419 MiB in all on an H200, whose scratch memory is 64 MiB.
_LATER_BYTES = 384 * _MIB
# More is kept free where there is more: encoders, and graphs of many shapes.
_MAX_RESERVE_BYTES, _RESERVE_SHARE = 10 * _GIB, 0.15
_SMALL_SHARE, _SMALL_BYTES = 0.3, 7.2 * _GIB  # below 16 GB
FEW_SLOTS = 2
"""Most slots that may take the memory which 'gpu_memory_utilization' leaves to others."""


def unpacked_bytes(products: Iterable[Product]) -> int:
    """Return the bytes beyond bfloat16 weights that a prompt takes, in and outside CUDA graphs.

    In a model of the allocator they are three copies of the largest int8 weight in bfloat16.
    """
    return 3 * 2 * max((each.num_weights for each in products), default=0)


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Memory of a GPU, as it is once a model's weights are loaded.

    Attributes:
        num_free: free bytes.
        utilization: share of the memory that may be in use once all is loaded; ``None``: engines
            share the GPU, and have caches of set sizes beside which nothing is kept for slots.
        later_bytes: bytes that the model allocates after the cache, beyond the usual.
    """

    num_free: int
    num_total: int
    utilization: float | None = None
    later_bytes: int = 0

    def num_left(self, num_slots: int) -> int:
        """Return the bytes that the cache may take within the share; negative if it is full."""
        assert self.utilization is not None, "no share of the memory is set"
        share = self.utilization * self.num_total
        reserve = min(_RESERVE_SHARE * share, _SMALL_SHARE * (share - _SMALL_BYTES))
        reserve = min(max(reserve, _LATER_BYTES), _MAX_RESERVE_BYTES) + self.later_bytes
        num_left = self.num_free + share - self.num_total - reserve
        return int(num_left) - num_slots * SLOT_RESERVE_BYTES

    def num_spare(self, num_slots: int) -> int:
        """Return the bytes that are free beside what is allocated after the cache."""
        num_kept = 0 if self.utilization is None else num_slots * SLOT_RESERVE_BYTES
        return self.num_free - _LATER_BYTES - self.later_bytes - num_kept

    def slots(self, sizes: Sequence[int], request_bytes: int) -> int:
        """Return the largest of ascending ``sizes`` that fits with a request in each slot.

        The smallest, and one or two slots, may take more than the share.

        Raises:
            ModelLoadError: not even the smallest fits.
        """
        for num_slots in reversed(sizes):
            num_left = self.num_left(num_slots)
            if num_slots <= max(sizes[0], FEW_SLOTS):
                num_left = self.num_spare(num_slots)
            if num_slots * request_bytes <= num_left:
                return num_slots
        what = f"A KV cache for {sizes[0]} slot" + "s" * (sizes[0] > 1)
        raise self.refusal(what, sizes[0] * request_bytes, sizes[0])

    def refusal(self, what: str, num_bytes: int, num_slots: int) -> ModelLoadError:
        num_later = self.num_free - self.num_spare(num_slots)
        needed, later, left, total = (
            f"{each / _MIB:.0f}" for each in (num_bytes, num_later, self.num_free, self.num_total)
        )
        return ModelLoadError(
            f"{what} needs {needed} MiB, and graphs and the codec {later} MiB; the weights leave"
            f" {left} of the GPU's {total} MiB. Use --quantize int8, a smaller --max-slots or"
            " --cache-gib, or a smaller model, or end other processes on the GPU."
        )
