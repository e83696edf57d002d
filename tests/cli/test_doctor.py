"""`antiphon doctor` reports a machine for people and for programs, without private names."""

import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from antiphon.contracts import family as family_module
from antiphon.nn.cuda import host_gpus
from antiphon.nn.cuda.host_gpus import HostGpu
from antiphon.placement.host_cpu import HostCpu
from tests.cli.conftest import Run

CPU = HostCpu("A CPU", 8, 7, "AVX2", {"fp16": "fbgemm", "int8": "fbgemm"}, 64.0, 50.0, 50.0)


@pytest.fixture(autouse=True)
def cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    use_cpu(CPU, monkeypatch)


def use_cpu(cpu: HostCpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HostCpu, "of_host", classmethod(lambda _: cpu))


def use_gpus(monkeypatch: pytest.MonkeyPatch, *gpus: HostGpu, others: tuple[str, ...] = ()) -> None:
    monkeypatch.setattr(host_gpus, "host_gpus", lambda: [*gpus])
    monkeypatch.setattr(host_gpus, "unused_devices", lambda: [*others])


def gpu(name: str, index: int = 0, **more: Any) -> HostGpu:
    usual = {"problem": None, "has_kernels": True, "has_programs": False}
    return HostGpu(f"cuda:{index}", name, 24.0, "8.9", **{**usual, **more})


def reported(run: Run) -> dict[str, Any]:
    done = run("doctor", "--json")
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_people_and_programs_get_the_same(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    use_gpus(monkeypatch, gpu("NVIDIA L4"))
    found, page = reported(run), run("doctor").stdout
    assert found["cpu"]["name"] == "A CPU"
    assert "A CPU: 8 cores, AVX2" in page
    assert "NVIDIA L4" in page
    assert found["packages"]["torch"] in page
    by_device = {(each["model"], each["device"]): each for each in found["models"]}
    small, large = (by_device[f"qwen3_tts {size}", "cpu"] for size in ("0.6b", "1.7b"))
    assert small["weights"] == large["weights"] == "int8"
    assert small["load"] < large["load"]
    assert by_device["qwen3_tts 0.6b", "cuda:0"]["load"] < small["load"]
    for each in found["models"]:
        assert each["model"] in page
        assert f"{each['load']:.0%}" in page


def test_what_is_missing_is_reported_with_what_to_do(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    too_old = gpu("NVIDIA T4", problem="'cuda:0' is too old.")
    use_gpus(monkeypatch, too_old, gpu("NVIDIA L4", 1, has_kernels=False), others=("mps",))
    arm = HostCpu("ARM", 8, 7, "DEFAULT", {"int8": "int8pack_mm"}, 16.0, 50.0, 50.0)
    use_cpu(arm, monkeypatch)
    monkeypatch.setattr(family_module, "find_spec", lambda _: None)
    found = reported(run)
    text = "\n".join(found["missing"])
    for part in (
        "qwen3_tts",
        "scripts/setup torch",
        "FBGEMM",
        "too old",
        "cuda:1: Triton",
        "'mps'",
    ):
        assert part in text
    assert "cuda:0" not in {each["device"] for each in found["models"]}
    assert {each["weights"] for each in found["models"]} == {"float32", "int8", "bfloat16"}
    assert "float32, int8 by int8pack_mm, --cpu-threads 7" in run("doctor").stdout


def test_without_pytorch_there_are_no_estimates(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    use_gpus(monkeypatch)
    use_cpu(HostCpu("A CPU", 2, 0, None, {}, 4.0, None, None), monkeypatch)
    assert reported(run)["models"] == []
    assert "none that PyTorch sees" in run("doctor").stdout


def test_nothing_private_is_reported(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    use_gpus(monkeypatch)
    text = run("doctor", "--json").stdout
    for private in (str(Path.home()), str(Path.cwd()), socket.gethostname(), os.sep + "tmp"):
        assert private not in text
