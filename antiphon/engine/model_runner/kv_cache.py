"""Paged KV cache of all slots: its size and the block tables."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from antiphon.engine.plan import BlockCopy
from antiphon.engine.runner import BLOCK_POSITIONS, num_blocks_of, row_buckets
from antiphon.nn.attention import KVShape, PagedCache
from antiphon.nn.cuda.devices import free_memory
from antiphon.nn.cuda.memory_plan import MemoryPlan
from antiphon.nn.device_writes import PackedUpload

logger = logging.getLogger(__name__)

_USUAL_POSITIONS = 384  # positions of a request: a prompt and nearly half a minute of speech
_USUAL_CPU_POSITIONS = 128  # few of a CPU's slots are in use at once
_MIB = 2**20
_COPY_BYTES = 64 * _MIB  # scratch memory for block copies


@dataclass(frozen=True, slots=True)
class KVBudget:
    """Memory budget of the KV cache.

    Attributes:
        cache_bytes: size of the cache; ``None``: on a GPU by ``utilization``, or enough for nearly
            half a minute in all slots, on a CPU for a third of that.
        utilization: share of a GPU's memory that may be in use once all is loaded, by any process:
            the cache takes the rest, one longest request or half a minute in all slots even beyond.
        reserved_bytes: bytes that the model allocates later, beyond the usual.
    """

    num_slots: int
    max_positions: int
    cache_bytes: int | None = None
    utilization: float | None = None
    reserved_bytes: int = 0

    def num_blocks(self, shapes: Sequence[KVShape], like: Tensor) -> int:
        """Return how many blocks to allocate, on a GPU as have room; raises ModelLoadError."""
        position_bytes = sum(shape.position_size for shape in shapes) * like.element_size()
        block_bytes = position_bytes * BLOCK_POSITIONS
        usual = min(_USUAL_POSITIONS if like.is_cuda else _USUAL_CPU_POSITIONS, self.max_positions)
        longest = num_blocks_of(self.max_positions)
        wanted = self.num_slots * usual // BLOCK_POSITIONS
        if self.cache_bytes is not None:
            wanted = self.cache_bytes // block_bytes
        if not like.is_cuda:
            return max(wanted, longest)
        plan, num_slots = self.plan(*free_memory(like.device)), self.num_slots
        least = num_blocks_of(usual) if self.cache_bytes is None else wanted
        if self.cache_bytes is None and self.utilization is not None:
            left = plan.num_left(num_slots) // block_bytes
            wanted = max(wanted, min(left, num_slots * longest))
        spare = plan.num_spare(num_slots) // block_bytes - 1  # the null block
        if spare < least:
            raise plan.refusal("A KV cache", least * block_bytes, num_slots)
        return min(max(wanted, longest), spare)

    def fitted(self, plan: MemoryPlan, position_bytes: int, *, is_fixed: bool) -> "KVBudget":
        """Return the budget with slots that fit; if ``is_fixed``, all; raises ModelLoadError."""
        position_bytes *= min(_USUAL_POSITIONS, self.max_positions)
        sizes = row_buckets(self.num_slots)[-1 if is_fixed else 0 :]
        return replace(self, num_slots=plan.slots(sizes, position_bytes))

    def plan(self, num_free: int, num_total: int) -> MemoryPlan:
        """Return the plan of a GPU's memory, once the weights are loaded."""
        return MemoryPlan(num_free, num_total, self.utilization, self.reserved_bytes)


class KVCaches:
    """KV caches of all stacks with one block table: a slot's block numbers are the same in each.

    Attributes:
        table: block tables of the slots and of one slot for padding, see `PagedCache`.
    """

    def __init__(self, shapes: Sequence[KVShape], budget: KVBudget, like: Tensor) -> None:
        self.num_blocks = budget.num_blocks(shapes, like)
        size = (budget.num_slots + 1, num_blocks_of(budget.max_positions))
        self.table = torch.full(size, self.num_blocks, dtype=torch.int32, device=like.device)
        self._null_block = self.table[0, :1].clone()
        self.stacks = tuple(
            PagedCache.zeros(shape, self.num_blocks, BLOCK_POSITIONS, self.table, like)
            for shape in shapes
        )
        self._num_held = [0] * budget.num_slots

    def clear(self, slots: Sequence[int], uploads: PackedUpload) -> None:
        for slot in slots:
            self._num_held[slot] = 0
        uploads.copy(self.table, np.array(slots, np.int64), self._null_block)

    def extend(self, blocks: Mapping[int, Sequence[int]], uploads: PackedUpload) -> None:
        places, numbers = list[int](), list[int]()
        width = self.table.shape[1]
        for slot, given in blocks.items():
            first, num_held = slot * width, self._num_held[slot]
            assert num_held + len(given) <= width, "a slot is given more than its request may hold"
            places += range(first + num_held, first + num_held + len(given))
            numbers += given
            self._num_held[slot] = num_held + len(given)
        if numbers:
            uploads.write(self.table.view(-1), np.array(places), np.array(numbers))

    def copy(self, copies: Sequence[BlockCopy], uploads: PackedUpload) -> None:
        if copies:
            sources = np.array([copy.source for copy in copies], np.int64)
            targets = np.array([copy.target for copy in copies], np.int64)
            uploads.add(self._copy, sources, targets)

    def _copy(self, sources: Tensor, targets: Tensor) -> None:
        for stack in self.stacks:
            layer_bytes = len(sources) * stack.tensor[0, :, 0].nbytes
            for layers in torch.split(stack.tensor, max(1, _COPY_BYTES // layer_bytes)):
                # All are read before any is written: a source may be a target too.
                layers.index_copy_(2, targets, layers.index_select(2, sources))

    def log_memory(self) -> None:
        """Log the memory of the blocks and the number of streams that it holds."""
        logger.info(
            "memory: cache %.0f MiB (%d blocks, %d positions, %d streams of 30 s), %d slots",
            sum(stack.tensor.nbytes for stack in self.stacks) / _MIB,
            self.num_blocks,
            self.num_blocks * BLOCK_POSITIONS,
            self.num_blocks // num_blocks_of(375),
            len(self._num_held),
        )
