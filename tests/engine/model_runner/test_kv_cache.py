"""The cache is as large as asked for, and always holds the longest request."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from antiphon.contracts.family import LoadContext
from antiphon.engine.model_runner import kv_cache
from antiphon.engine.model_runner.kv_cache import KVBudget, KVCaches
from antiphon.engine.plan import BlockCopy
from antiphon.engine.runner import BLOCK_POSITIONS
from antiphon.errors import ModelLoadError
from antiphon.families.qwen3_tts.config import CheckpointTask
from antiphon.families.qwen3_tts.language_model import load_runner
from antiphon.nn.attention import KVShape
from antiphon.nn.device_writes import PackedUpload

MIB, GIB = 2**20, 2**30


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
    plan = KVBudget(num_slots, 4096, utilization=utilization).plan(num_free, total)
    left = plan.num_left(num_slots)
    assert left < num_free - num_slots * 3_400_000, "each slot has a state of the codec"
    used = total - num_free
    assert used + max(left, 0) <= max(utilization * total, used)


@given(
    total_gib=st.floats(0.1, 200),
    free=st.floats(-1.0, 1.0),
    utilization=st.floats(0.1, 1.0),
    num_slots=st.integers(1, 300),
    is_fixed=st.booleans(),
)
def test_slots_fit_into_the_memory_that_there_is(
    total_gib: float, free: float, utilization: float, num_slots: int, is_fixed: bool
) -> None:
    position_bytes, usual = 114_688, 384
    total = int(total_gib * GIB)
    budget = KVBudget(num_slots, 4096, utilization=utilization)
    plan = budget.plan(int(free * total), total)
    wanted = num_slots if is_fixed else 1
    if wanted * usual * position_bytes > plan.num_spare(wanted):
        with pytest.raises(ModelLoadError, match="the weights leave"):
            budget.fitted(plan, position_bytes, is_fixed=is_fixed)
        return
    fitting = budget.fitted(plan, position_bytes, is_fixed=is_fixed).num_slots
    assert wanted <= fitting <= num_slots
    assert fitting * usual * position_bytes <= plan.num_spare(fitting)
    if fitting > max(2, wanted):
        assert fitting * usual * position_bytes <= plan.num_left(fitting)
    if plan.num_left(num_slots) >= num_slots * usual * position_bytes:
        assert fitting == num_slots


class FakeGpu:
    """A GPU for `KVBudget.num_blocks`: the memory is free that is said to be."""

    is_cuda, device = True, torch.device("cpu")
    element_size = torch.empty(0, dtype=torch.bfloat16).element_size


def blocks(monkeypatch: pytest.MonkeyPatch, free_mib: int, total_mib: int, budget: KVBudget) -> int:
    """Return the blocks of Qwen3-TTS on a GPU with so much memory."""
    monkeypatch.setattr(kv_cache, "free_memory", lambda _: (free_mib * MIB, total_mib * MIB))
    return budget.num_blocks((KVShape(28, 8, 128),), cast(torch.Tensor, FakeGpu()))


@pytest.mark.parametrize(
    ("free_mib", "total_mib", "num_slots", "num_positions"),
    [
        (598, 3072, 2, 1648),
        (630, 2560, 2, 1936),
        (792, 4096, 2, 3408),
        (1444, 6144, 4, 4096),
        (3492, 8192, 32, 16240),
    ],
    ids=["0.6b", "0.6b int8", "1.7b int8", "1.7b", "1.7b in 8"],
)
def test_the_cache_is_what_small_cards_have_left(
    free_mib: int,
    total_mib: int,
    num_slots: int,
    num_positions: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    budget = KVBudget(num_slots, 4096, utilization=0.9)
    found = blocks(monkeypatch, free_mib, total_mib, budget)
    assert found * BLOCK_POSITIONS == num_positions
    plan = budget.plan(free_mib * MIB, total_mib * MIB)
    assert (found + 1) * BLOCK_POSITIONS * 114_688 <= plan.num_spare(num_slots)


def test_a_cache_that_does_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    usual, asked = KVBudget(2, 4096, utilization=0.9), KVBudget(2, 4096, GIB // 2, 0.9)
    figures = r"A KV cache needs 42 MiB, .* 416 MiB; .* 450 of the GPU's 3072 MiB.*--quantize int8"
    with pytest.raises(ModelLoadError, match=figures):
        blocks(monkeypatch, 450, 3072, usual)
    with pytest.raises(ModelLoadError, match=r"A KV cache needs 511 MiB.*--cache-gib"):
        blocks(monkeypatch, 900, 3072, asked)
    assert blocks(monkeypatch, 1000, 3072, asked) * BLOCK_POSITIONS >= 4096


def test_engines_that_share_a_gpu_keep_nothing_for_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = KVBudget(64, 4096, cache_bytes=GIB // 2)
    assert blocks(monkeypatch, 900, 3072, shared) * BLOCK_POSITIONS >= 4096
    with pytest.raises(ModelLoadError, match="graphs and the codec 384 MiB"):
        blocks(monkeypatch, 800, 3072, shared)


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
    left = budget.plan(num_free, num_total).num_left(64)
    if num_blocks > usual:
        assert num_blocks * BLOCK_POSITIONS * 28 * 8 * 128 * 2 * 2 <= left
