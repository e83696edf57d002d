"""The GPUs of this machine, and the kernels that models use on each."""

from dataclasses import dataclass
from importlib.util import find_spec

import torch

from antiphon.errors import ModelLoadError
from antiphon.nn.cuda.compiler import has_compiler
from antiphon.nn.cuda.devices import gpu_memory
from antiphon.nn.cuda.resident_limits import CAPABILITY
from antiphon.nn.device import find_device

_GIB = 2**30


@dataclass(frozen=True, slots=True)
class HostGpu:
    """A GPU.

    Attributes:
        device: its name for ``--device``.
        capability: compute capability, such as ``"9.0"``.
        problem: why models cannot use it; ``None``: they can.
        has_kernels: whether Triton is installed; PyTorch's operators are far slower.
        has_programs: whether inner codes are made by one resident program.
    """

    device: str
    name: str
    memory_gib: float
    capability: str
    problem: str | None
    has_kernels: bool
    has_programs: bool


def host_gpus() -> list[HostGpu]:
    """Return the GPUs that PyTorch sees."""
    return [_gpu(device, num_bytes) for device, num_bytes in gpu_memory().items()]


def unused_devices() -> list[str]:
    """Return the kinds of device that PyTorch sees and models do not run on."""
    devices = {"mps": torch.backends.mps.is_available(), "xpu": torch.xpu.is_available()}
    return [kind for kind, is_available in devices.items() if is_available]


def _gpu(device: str, num_bytes: int) -> HostGpu:
    properties = torch.cuda.get_device_properties(device)
    problem = None
    try:
        find_device(device)
    except ModelLoadError as error:
        problem = error.message
    capability = (properties.major, properties.minor)
    return HostGpu(
        device=device,
        name=properties.name,
        memory_gib=num_bytes / _GIB,
        capability=".".join(map(str, capability)),
        problem=problem,
        has_kernels=find_spec("triton") is not None,
        has_programs=capability == CAPABILITY and has_compiler(),
    )
