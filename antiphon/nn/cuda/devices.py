"""GPUs that models run on, and their memory."""

import torch

from antiphon.errors import ModelLoadError

_MIN_CAPABILITY = (8, 0)


def check_capability(device: torch.device) -> None:
    """Refuse an NVIDIA GPU without bfloat16, such as a T4 or a V100."""
    if torch.version.cuda is None:
        return
    capability = torch.cuda.get_device_capability(device)
    if capability < _MIN_CAPABILITY:
        have, need = (".".join(map(str, each)) for each in (capability, _MIN_CAPABILITY))
        raise ModelLoadError(
            f"'{device}' is a {torch.cuda.get_device_name(device)} of compute capability {have};"
            f" {need} or more is needed, for bfloat16 and for the kernels: an A100, an L4, an RTX"
            " 30 or later. Use such a card, or the device 'cpu'."
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
