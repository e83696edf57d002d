"""This machine's CPU is described and measured, without a trace in the process."""

import pytest
import torch

from antiphon.concurrency import num_usable_cores
from antiphon.nn.cpu import speed
from antiphon.placement import host_cpu
from antiphon.placement.host_cpu import HostCpu


def test_a_cpu_is_measured_and_threads_stay_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "_NUM_TRIALS", 1)
    monkeypatch.setattr(speed, "_NUM_FLOATS", 1000)
    before = torch.get_num_threads()
    found = HostCpu.of_host()
    assert torch.get_num_threads() == before
    assert found.cores == num_usable_cores()
    assert found.name
    for number in (found.threads, found.bandwidth_gbs, found.gflops, found.memory_gib):
        assert number
        assert number > 0


def test_without_pytorch_nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_cpu, "find_spec", lambda _: None)
    found = HostCpu.of_host()
    assert (found.threads, found.vectors, found.engines) == (0, None, {})
    assert (found.bandwidth_gbs, found.gflops) == (None, None)
    assert found.cores > 0
