"""What a CPU holds, estimated: int8 takes less of everything, and what fits is recommended."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from antiphon.concurrency import num_usable_cores
from antiphon.errors import ModelLoadError
from antiphon.families.registry import family
from antiphon.nn.cpu import speed
from antiphon.placement import host_cpu
from antiphon.placement.cpu_fit import CpuFit, cpu_fits, recommended
from antiphon.placement.host_cpu import HostCpu
from tests.families.qwen3_tts.random_checkpoint import write_all_but_weights

ENGINES = {"fp16": "fbgemm", "int8": "fbgemm"}
CPU = HostCpu("A CPU", 4, 3, "AVX2", ENGINES, 16.0, 16.0, 60.0)
FAMILY = family("qwen3_tts")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_all_but_weights(tmp_path, size="0.6b", task="custom_voice", dtype="bfloat16")
    return tmp_path


def test_int8_takes_a_part_of_memory_and_time(path: Path) -> None:
    exact, half, packed = cpu_fits(FAMILY, path, CPU, 30.0)
    assert (exact.weights, half.weights, packed.weights) == ("float32", "fp16", "int8")
    assert packed.memory_gib < half.memory_gib < exact.memory_gib
    assert packed.model_ms < half.model_ms < exact.model_ms
    assert 0.5 < packed.memory_gib / exact.memory_gib < 0.75
    assert 0.25 < packed.model_ms / exact.model_ms < 0.5
    assert packed.decoder_ms == exact.decoder_ms
    assert recommended([exact, half, packed], 16.0) == packed


def test_more_of_anything_helps(path: Path) -> None:
    def load(cpu: HostCpu, seconds: float = 30.0) -> CpuFit:
        return cpu_fits(FAMILY, path, cpu, seconds)[0]

    usual = load(CPU)
    assert load(replace(CPU, bandwidth_gbs=32.0)).model_ms < usual.model_ms
    assert load(replace(CPU, gflops=120.0)).decoder_ms < usual.decoder_ms
    assert load(replace(CPU, cores=1)).load > usual.load
    assert load(CPU, 600.0).memory_gib > usual.memory_gib


def test_only_what_is_supported_and_fits_is_recommended(path: Path) -> None:
    fits = cpu_fits(FAMILY, path, replace(CPU, engines={"int8": "int8pack_mm"}), 30.0)
    assert [each.weights for each in fits] == ["float32", "int8"]
    both = cpu_fits(FAMILY, path, CPU, 30.0)[::2]
    assert recommended(both, 1.0) is None
    assert recommended(both, None) == both[1]
    fast = replace(both[0], load=both[1].load / 2)
    assert recommended([fast, both[1]], 16.0) == fast
    alike = replace(both[0], load=both[1].load)
    assert recommended([alike, both[1]], 16.0) == both[1]
    assert recommended([fast, both[1]], fast.memory_gib) == both[1]


def test_what_is_not_known_is_refused(path: Path) -> None:
    with pytest.raises(ModelLoadError, match="measured with PyTorch"):
        cpu_fits(FAMILY, path, replace(CPU, bandwidth_gbs=None), 30.0)
    with pytest.raises(ModelLoadError, match="'toy' takes of a machine is not known"):
        cpu_fits(family("toy"), path, CPU, 30.0)


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
