"""Threads of products: the setting, or all cores but one."""

import pytest
import torch

from antiphon.nn.cpu import threads
from antiphon.nn.device import resolve_device


@pytest.mark.parametrize(("num_cores", "of_model"), [(1, 1), (2, 1), (8, 7)])
def test_one_core_is_left_by_default(
    num_cores: int, of_model: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "_NUM_CORES", num_cores)
    assert threads.model_threads(None) == of_model
    assert threads.model_threads(3) == 3


def test_loading_on_a_cpu_sets_them() -> None:
    before = torch.get_num_threads()
    try:
        resolve_device("cpu", cpu_threads=3)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
