"""Slots of models by the memory of a GPU, which is not there."""

from dataclasses import replace

import pytest
import torch

from antiphon.contracts.family import LoadContext
from antiphon.errors import ModelLoadError
from antiphon.families.kit import loading
from antiphon.nn.cuda import devices

GIB = 2**30
NUM_WEIGHTS, POSITION_SIZE = 750_000_000, 57_344  # Qwen3-TTS 0.6B


def slots(context: LoadContext) -> int:
    return loading.fitted(context, 4096, (NUM_WEIGHTS, POSITION_SIZE)).num_slots


@pytest.mark.parametrize(
    ("free_gib", "total_gib", "num_slots"),
    [(2.3, 3, 4), (2.1, 3, 2), (7.3, 8, 64), (2.3, 80, 2), (79, 80, 64)],
    ids=["a small card", "a fuller one", "a larger one", "others use it", "a large one"],
)
def test_slots_follow_the_memory(
    free_gib: float, total_gib: int, num_slots: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    like = torch.empty(0, dtype=torch.bfloat16, device="meta")
    memory = int(free_gib * GIB), total_gib * GIB
    monkeypatch.setattr(loading, "like_of", lambda context: like)
    monkeypatch.setattr(loading, "loadable_memory", lambda device: memory)
    context = LoadContext(max_slots=64, memory_utilization=0.9)
    assert slots(context) == num_slots
    assert slots(replace(context, max_slots=1)) == 1
    fixed = replace(context, has_fixed_slots=True)
    assert slots(replace(fixed, max_slots=num_slots)) == num_slots
    if num_slots < 64:
        with pytest.raises(ModelLoadError, match=r"KV cache for 64 slots .* MiB"):
            slots(fixed)
    for sized in ({"cache_bytes": GIB}, {"memory_utilization": None}):
        assert slots(replace(context, **sized)) == 64, "nothing is to be found out"


def test_a_cpu_has_the_slots_that_are_wanted() -> None:
    assert slots(LoadContext(device="cpu", max_slots=64, memory_utilization=0.9)) == 64


def test_weights_fill_memory_that_is_kept_unused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (2 * GIB, 3 * GIB))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _: 400)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda _: 250)
    device = torch.device("cuda")
    assert devices.free_memory(device) == (2 * GIB, 3 * GIB)
    assert devices.loadable_memory(device) == (2 * GIB + 75, 3 * GIB)
