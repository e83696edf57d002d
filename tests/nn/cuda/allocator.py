"""A model of PyTorch's caching allocator, which meta tensors are counted with as those of a GPU."""

import weakref
from bisect import bisect_left, insort
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

MIB = 2**20
_GRAIN = 512
_SMALL, _MEDIUM = MIB, 10 * MIB
_SMALL_SEGMENT, _MEDIUM_SEGMENT, _LARGE_GRAIN = 2 * MIB, 20 * MIB, 2 * MIB


class Allocator(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Best fit in segments that stay whole; within, tensors of meta that are made and dropped.

    Attributes:
        allocated: bytes of tensors.
        peak: most of them at once.
        reserved: bytes of segments.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.allocated = self.peak = self.reserved = 0
        self._segments: dict[int, dict[int, tuple[int, bool]]] = {}  # offset: size, is in use
        self._free: dict[bool, list[tuple[int, int, int]]] = {True: [], False: []}
        self._seen: dict[int, Callable[[], Any]] = {}

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[Any],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        for each in tree_leaves(result):
            if isinstance(each, torch.Tensor) and each.is_meta:
                self._note(each.untyped_storage())
        return result

    def empty_cache(self) -> None:
        for segment, blocks in [*self._segments.items()]:
            if len(blocks) == 1 and not blocks[0][1]:
                size = blocks[0][0]
                self._free[size == _SMALL_SEGMENT].remove((size, segment, 0))
                self.reserved -= size
                del self._segments[segment]

    def _note(self, storage: torch.UntypedStorage) -> None:
        key, size = storage._cdata, storage.nbytes()
        if not size or ((seen := self._seen.get(key)) and seen() is storage):
            return
        size = -(-size // _GRAIN) * _GRAIN
        place = self._allocate(size)
        self._seen[key] = weakref.ref(storage, lambda _: self._release(*place, size <= _SMALL))

    def _allocate(self, size: int) -> tuple[int, int]:
        is_small = size <= _SMALL
        free = self._free[is_small]
        if (index := bisect_left(free, (size, -1, -1))) < len(free):
            block, segment, offset = free.pop(index)
        else:
            block = -(-size // _LARGE_GRAIN) * _LARGE_GRAIN
            block = _SMALL_SEGMENT if is_small else max(block, _MEDIUM_SEGMENT)
            if _MEDIUM <= size < _MEDIUM_SEGMENT:
                block = -(-size // _LARGE_GRAIN) * _LARGE_GRAIN
            segment, offset = max(self._segments, default=0) + 1, 0
            self._segments[segment] = {}
            self.reserved += block
        blocks, rest = self._segments[segment], block - size
        if rest >= _GRAIN if is_small else rest > _SMALL:
            blocks[offset + size] = rest, False
            insort(free, (rest, segment, offset + size))
            block = size
        blocks[offset] = block, True
        self.allocated += block
        self.peak = max(self.peak, self.allocated)
        return segment, offset

    def _release(self, segment: int, offset: int, is_small: bool) -> None:
        blocks, free = self._segments[segment], self._free[is_small]
        size, _ = blocks.pop(offset)
        self.allocated -= size
        for other, (length, is_used) in sorted(blocks.items()):
            if not is_used and (other == offset + size or other + length == offset):
                free.remove((length, segment, other))
                del blocks[other]
                offset, size = min(other, offset), size + length
        blocks[offset] = size, False
        insort(free, (size, segment, offset))
