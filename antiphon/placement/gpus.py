"""The GPUs of this host, as PyTorch names them."""

from importlib.util import find_spec


def gpus_of_host() -> dict[str, int]:
    """Return the bytes of memory of each GPU by its name, such as ``"cuda:0"``; imports PyTorch."""
    if find_spec("torch") is None:
        return {}
    from antiphon.nn.cuda.devices import gpu_memory

    return gpu_memory()
