"""GPUs that models run on, and their memory."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from antiphon.errors import ModelLoadError
from antiphon.nn.cuda.resident_limits import BFLOAT16_CAPABILITY

_MIN_CAPABILITY = (7, 5)
_MIB = 2**20


def check_capability(device: torch.device) -> None:
    """Refuse an NVIDIA GPU that is too old for the kernels, such as a V100."""
    if torch.version.cuda is None:
        return
    capability = torch.cuda.get_device_capability(device)
    if capability < _MIN_CAPABILITY:
        have, need = (".".join(map(str, each)) for each in (capability, _MIN_CAPABILITY))
        raise ModelLoadError(
            f"'{device}' is a {torch.cuda.get_device_name(device)} of compute capability {have};"
            f" {need} or more is needed for the kernels: a T4, an A100, an L4, an RTX 20 or"
            " later. Use such a card, or the device 'cpu'."
        )


def has_bfloat16(device: torch.device) -> bool:
    """Return whether a GPU computes in bfloat16, which a T4 and an RTX 20 do not."""
    is_cuda = device.type == "cuda"
    is_nvidia = torch.version.cuda is not None
    return is_cuda and not (
        is_nvidia and torch.cuda.get_device_capability(device) < BFLOAT16_CAPABILITY
    )


def gpu_memory() -> dict[str, int]:
    """Return the bytes of memory of each GPU by its name, such as ``"cuda:0"``."""
    num_gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return {
        f"cuda:{index}": torch.cuda.get_device_properties(index).total_memory
        for index in range(num_gpus)
    }


def free_memory(device: torch.device) -> tuple[int, int]:
    """Return a GPU's free bytes, without those that PyTorch keeps unused, and its total bytes."""
    torch.cuda.empty_cache()
    return torch.cuda.mem_get_info(device)


def loadable_memory(device: torch.device) -> tuple[int, int]:
    """Return a GPU's bytes for weights to be loaded, and its total bytes.

    Weights also fill what PyTorch keeps unused between tensors: half of it in a model of the
    allocator.
    """
    num_free, num_total = free_memory(device)
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return num_free + unused // 2, num_total


@contextmanager
def explained_shortage() -> Iterator[None]:
    """Raise ModelLoadError, with the figures, where the current GPU's memory runs out."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        num_free, num_total = torch.cuda.mem_get_info()
        sizes = num_free, num_total, torch.cuda.memory_allocated()
        free, total, allocated = (f"{each / _MIB:.0f}" for each in sizes)
        raise ModelLoadError(
            f"The GPU's memory ran out while CUDA graphs were captured: {free} of {total} MiB are"
            f" free, and this process's tensors take {allocated} MiB. Use --quantize int8, a"
            " smaller --max-slots or --cache-gib, or a smaller model, or end other processes on"
            " the GPU."
        ) from error
