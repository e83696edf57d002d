"""Devices and number types by name."""

import torch

from antiphon.errors import ModelLoadError
from antiphon.nn.cpu.threads import model_threads
from antiphon.nn.cuda.devices import check_capability, has_bfloat16

_DTYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32}


def resolve_device(
    name: str, memory_fraction: float | None = None, cpu_threads: int | None = None
) -> torch.device:
    """Return the device of this name, and make it the current device of this thread.

    PyTorch's own operations run where their tensors are; Triton kernels run on the current device,
    with pointers into another one's memory if the tensors are elsewhere. Engines have threads of
    their own, which enter the streams of their devices.

    Args:
        memory_fraction: share of a GPU's memory that PyTorch may use in this process.
        cpu_threads: threads of products on a CPU; see `model_threads`.

    Raises:
        ModelLoadError: the device does not exist, or is too old.
    """
    device = find_device(name)
    if device.type == "cpu":
        torch.set_num_threads(model_threads(cpu_threads))
    if device.type == "cuda":
        torch.cuda.set_device(device.index or 0)
        if memory_fraction is not None:
            torch.cuda.set_per_process_memory_fraction(memory_fraction, device)
    return device


def find_device(name: str) -> torch.device:
    """Return the device of a name, of "auto" the first GPU or the CPU; raises ModelLoadError."""
    has_cuda = torch.cuda.is_available()
    if name == "auto":
        name = "cuda:0" if has_cuda else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ModelLoadError(f"'{name}' is no device: {error}") from error
    if device.type not in ("cpu", "cuda"):  # "mps" and "xpu": no model has been run on them
        raise ModelLoadError(f"Invalid device: '{name}'. Must be auto, cpu, cuda or cuda:N.")
    num_devices = torch.cuda.device_count() if has_cuda else 0
    if device.type == "cuda" and (device.index or 0) >= num_devices:
        raise ModelLoadError(f"There is no device '{name}': PyTorch sees {num_devices} GPUs.")
    if device.type == "cuda":
        check_capability(device)
    return device


def resolve_dtype(name: str, device: torch.device) -> torch.dtype:
    """Return the number type of this name; "auto" is bfloat16 where a GPU has it, else float32."""
    if name == "auto":
        name = "bfloat16" if has_bfloat16(device) else "float32"
    elif name == "bfloat16" and device.type == "cuda" and not has_bfloat16(device):
        raise ModelLoadError(f"Invalid 'dtype': bfloat16. Must be auto or float32 on '{device}'.")
    return _DTYPES[name]
