"""A report on this machine: what models use of it, what is missing, and how fast they should be.

It has no names of users, hosts or folders, so that it can be sent to others as it is.
"""

import platform
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from antiphon.contracts.family import Family
from antiphon.errors import SettingsError
from antiphon.families.registry import families
from antiphon.placement.cards import card_of
from antiphon.placement.cpu_fit import cpu_fits, recommended
from antiphon.placement.fit import fit
from antiphon.placement.host_cpu import HostCpu

if TYPE_CHECKING:
    from antiphon.nn.cuda.host_gpus import HostGpu

PACKAGES = (
    *("torch", "triton", "cuda-bindings", "safetensors", "tokenizers", "transformers"),
    *("gguf", "diffusers", "onnxruntime", "numpy", "av", "soxr", "ray"),
)
SECONDS = 30.0
"""Audio of a stream in estimates."""
_TINY = "tiny"


@dataclass(frozen=True, slots=True)
class Estimate:
    """One model on one device.

    Attributes:
        frame_ms: time of one stream's frame.
        num_streams: streams without gaps; 0: not even one.
    """

    model: str
    device: str
    weights: str
    memory_gib: float
    frame_ms: float
    load: float
    num_streams: int


@dataclass(frozen=True, slots=True)
class Report:
    """The findings.

    Attributes:
        system: operating system and kind of machine.
        packages: versions by name; ``None``: not installed.
        other_devices: devices that PyTorch sees and models do not use.
        missing: sentences that name missing packages and unusable devices, with the remedy.
        models: estimates for published sizes of families whose sizes are known.
    """

    antiphon: str
    python: str
    system: str
    packages: dict[str, str | None]
    cpu: HostCpu
    gpus: "Sequence[HostGpu]"
    other_devices: Sequence[str]
    missing: Sequence[str]
    models: Sequence[Estimate]


def examine(antiphon: str) -> Report:
    """Examine this machine for a version of Antiphon; takes a few seconds, and loads no model."""
    cpu = HostCpu.of_host()
    gpus: list[HostGpu] = []
    others: list[str] = []
    if find_spec("torch") is not None:
        from antiphon.nn.cuda.host_gpus import host_gpus, unused_devices

        gpus, others = host_gpus(), unused_devices()
    return Report(
        antiphon=antiphon,
        python=platform.python_version(),
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        packages={name: _version(name) for name in PACKAGES},
        cpu=cpu,
        gpus=gpus,
        other_devices=others,
        missing=[*_missing(cpu, gpus, others)],
        models=[each for model in families() for each in _estimates(model, cpu, gpus)],
    )


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _missing(cpu: HostCpu, gpus: "Sequence[HostGpu]", others: Sequence[str]) -> Iterator[str]:
    wanting: dict[str, list[str]] = {}
    for family in families():
        if family.extra is not None and (problem := family.extra.missing):
            wanting.setdefault(problem.removeprefix("this model needs "), []).append(family.name)
    for problem, names in wanting.items():
        yield f"{', '.join(names)}: {problem}."
    if cpu.threads and "fp16" not in cpu.engines:
        yield "PyTorch has no FBGEMM on this CPU: --quantize fp16 is refused."
    for gpu in gpus:
        if gpu.problem is not None:
            yield gpu.problem
        elif not gpu.has_kernels:
            yield f"{gpu.device}: Triton is not installed, so that models are far slower."
    for kind in others:
        yield f"The device '{kind}' is not used: models run on NVIDIA GPUs and on CPUs."


def _estimates(family: Family, cpu: HostCpu, gpus: "Sequence[HostGpu]") -> Iterator[Estimate]:
    """Yield estimates for the published sizes of a family, by their configurations."""
    measuring, maker = family.measuring, family.checkpoint_maker
    if family.footprint is None or measuring is None or maker is None or not cpu.bandwidth_gbs:
        return
    make = maker.resolve()
    for size in make.sizes:
        if size.startswith(_TINY):
            continue
        with tempfile.TemporaryDirectory() as folder:
            make(Path(folder), size=size)
            yield from _on_devices(f"{family.name} {size}", family, Path(folder), cpu, gpus)


def _on_devices(
    model: str, family: Family, path: Path, cpu: HostCpu, gpus: "Sequence[HostGpu]"
) -> Iterator[Estimate]:
    best = recommended(cpu_fits(family, path, cpu, SECONDS), cpu.memory_gib)
    if best is not None:
        frame_ms = max(best.model_ms, best.decoder_ms)
        is_fast = int(best.load <= 1)
        yield Estimate(model, "cpu", best.weights, best.memory_gib, frame_ms, best.load, is_fast)
    assert family.footprint is not None
    footprint = family.footprint.resolve()(path)
    for gpu in gpus:
        if gpu.problem is not None:
            continue
        try:
            card = card_of(gpu.name)
        except SettingsError:  # its bandwidth is unknown
            continue
        found = fit(footprint, card, SECONDS, (1,))
        speed, memory_gib = found.speeds[0], found.weight_gib + found.stream_gib
        yield Estimate(
            model=model,
            device=gpu.device,
            weights="bfloat16",
            memory_gib=memory_gib,
            frame_ms=speed.frame_ms,
            load=speed.load,
            num_streams=found.num_gapless,
        )
