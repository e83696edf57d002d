"""The cache is as large as asked for, and always holds the longest request."""

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from antiphon.contracts.family import LoadContext
from antiphon.engine.model_runner import kv_cache
from antiphon.engine.model_runner.kv_cache import KVBudget, KVCaches
from antiphon.engine.plan import BlockCopy
from antiphon.engine.runner import BLOCK_POSITIONS
from antiphon.families.qwen3_tts.config import CheckpointTask
from antiphon.families.qwen3_tts.language_model import load_runner
from antiphon.nn.attention import KVShape
from antiphon.nn.device_writes import PackedUpload


@pytest.fixture(scope="module")
def path(checkpoint: Callable[..., Path]) -> Path:
    return checkpoint("tiny", CheckpointTask.BASE)


@given(
    shapes=st.lists(st.builds(KVShape, *[st.integers(1, 8)] * 3), min_size=1, max_size=3),
    num_slots=st.integers(1, 300),
    max_positions=st.integers(1, 4096),
    cache_bytes=st.none() | st.integers(0, 2**32),
)
def test_the_longest_request_fits_and_memory_is_kept_to(
    shapes: list[KVShape], num_slots: int, max_positions: int, cache_bytes: int | None
) -> None:
    like = torch.empty(0, dtype=torch.bfloat16)
    num_blocks = KVBudget(num_slots, max_positions, cache_bytes).num_blocks(shapes, like)
    at_least = -(-max_positions // BLOCK_POSITIONS)
    assert num_blocks >= at_least
    if num_blocks > at_least and cache_bytes is not None:
        width = sum(each.num_layers * each.num_kv_heads * each.head_dim for each in shapes)
        assert 2 * num_blocks * BLOCK_POSITIONS * width * like.element_size() <= cache_bytes


@given(
    total_gib=st.integers(6, 200),
    free=st.floats(0.0, 1.0),
    utilization=st.floats(0.1, 1.0),
    num_slots=st.integers(1, 2000),
)
def test_what_is_left_of_a_gpu_leaves_room_for_the_rest(
    total_gib: int, free: float, utilization: float, num_slots: int
) -> None:
    total = total_gib * 2**30
    num_free = int(free * total)
    left = KVBudget(num_slots, 4096, utilization=utilization).num_bytes_left(num_free, total)
    assert left < num_free - num_slots * 3_400_000, "each slot has a state of the codec"
    used = total - num_free
    assert used + max(left, 0) <= max(utilization * total, used)


@given(
    total_gib=st.floats(0.1, 200),
    free=st.floats(-1.0, 1.0),
    utilization=st.floats(0.1, 1.0),
    num_slots=st.integers(1, 300),
)
def test_slots_fit_into_the_memory_that_there_is(
    total_gib: float, free: float, utilization: float, num_slots: int
) -> None:
    position_bytes, usual, longest = 114_688, 384, 4096
    total = int(total_gib * 2**30)
    budget = KVBudget(num_slots, longest, utilization=utilization)

    def left(slots: int) -> int:
        return replace(budget, num_slots=slots).num_bytes_left(int(free * total), total)

    fitting = budget.fitting_slots(position_bytes, int(free * total), total)
    assert min(num_slots, 2) <= fitting <= num_slots
    if fitting > 2:
        assert left(fitting) >= 0
        assert fitting * usual <= max(left(fitting) // position_bytes, longest)
    if left(num_slots) >= num_slots * usual * position_bytes:
        assert fitting == num_slots


@pytest.mark.parametrize(
    ("total_gib", "weights_gib", "num_slots"), [(3, 1.6, 8), (6, 3.83, 8), (24, 3.83, 64)]
)
def test_small_cards_serve_some_streams(total_gib: int, weights_gib: float, num_slots: int) -> None:
    total, gib = total_gib * 2**30, 2**30
    num_free = total - int((0.5 + weights_gib) * gib)
    assert KVBudget(64, 4096, utilization=0.9).fitting_slots(114_688, num_free, total) == num_slots


def test_stacks_of_any_shapes_share_one_table() -> None:
    shapes = (KVShape(2, 1, 4), KVShape(3, 2, 8))
    caches = KVCaches(shapes, KVBudget(num_slots=2, max_positions=64), torch.zeros(()))
    uploads = PackedUpload(torch.device("cpu"))
    caches.extend({1: (7, 3), 0: (2,)}, uploads)
    caches.extend({1: (5,)}, uploads)
    caches.clear([0], uploads)
    uploads.send()
    spare = caches.num_blocks
    assert caches.table.tolist() == [[spare] * 4, [7, 3, 5, spare], [spare] * 4]
    slots, positions = torch.tensor([1, 1]), torch.tensor([0, 33])
    for shape, stack in zip(shapes, caches.stacks, strict=True):
        assert stack.table is caches.table
        assert stack.tensor.shape[0] == shape.num_layers
        blocks, offsets = stack.places(slots, positions)
        stack.tensor[0, 0, blocks, offsets] = 1.0
        assert stack.tensor[0, 0, 7, 0].eq(1).all()
        assert stack.tensor[0, 0, 5, 1].eq(1).all()


@pytest.mark.parametrize("copy_bytes", [1, 2**20])
def test_blocks_are_copied_as_they_were_before(
    monkeypatch: pytest.MonkeyPatch, copy_bytes: int
) -> None:
    monkeypatch.setattr(kv_cache, "_COPY_BYTES", copy_bytes)
    shapes = (KVShape(3, 1, 4), KVShape(2, 2, 8))
    caches = KVCaches(shapes, KVBudget(num_slots=2, max_positions=64), torch.zeros(()))
    for stack in caches.stacks:
        stack.tensor.copy_(torch.randn(stack.tensor.shape))
    before = [stack.tensor.clone() for stack in caches.stacks]
    uploads = PackedUpload(torch.device("cpu"))
    caches.copy([BlockCopy(0, 1), BlockCopy(1, 2), BlockCopy(0, 3), BlockCopy(4, 4)], uploads)
    uploads.send()
    for old, stack in zip(before, caches.stacks, strict=True):
        sources = [0, 0, 1, 0, *range(4, old.shape[2])]
        assert torch.equal(stack.tensor, old[:, :, sources])


def test_a_runner_tells_its_memory(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        runner = load_runner(LoadContext(path, "cpu", "float32", 3), max_positions=640)
    assert runner.cache.num_blocks == 40
    assert runner.cache.max_positions == 640
    assert [each.getMessage() for each in caplog.records if "(40 blocks" in each.getMessage()]
    assert len(runner.frame_store) == 3 + 1


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_the_cache_takes_what_is_left_and_what_slots_can_use() -> None:
    like = torch.zeros((), dtype=torch.bfloat16, device="cuda")
    shapes = (KVShape(28, 8, 128),)
    num_free, num_total = torch.cuda.mem_get_info()
    usual = KVBudget(64, 4096).num_blocks(shapes, like)
    assert KVBudget(64, 4096, utilization=0.01).num_blocks(shapes, like) == usual
    budget = KVBudget(64, 4096, utilization=0.9)
    num_blocks = budget.num_blocks(shapes, like)
    assert usual <= num_blocks <= 64 * 4096 // BLOCK_POSITIONS
    left = budget.num_bytes_left(num_free, num_total)
    if num_blocks > usual:
        assert num_blocks * BLOCK_POSITIONS * 28 * 8 * 128 * 2 * 2 <= left
