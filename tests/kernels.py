"""Where kernels are tested: on a GPU, or on the CPU in Triton's interpreter."""

import os
from importlib.util import find_spec

import torch


def why_not_here() -> str:
    """Return why no kernel can run in this process, ``""`` if one can.

    Raises:
        ModuleNotFoundError: the interpreter is asked for and is not installed: a run that is meant
            to test kernels must not pass by skipping them.
    """
    is_interpreted = os.environ.get("TRITON_INTERPRET") == "1"
    if find_spec("triton") is None:
        if is_interpreted:
            raise ModuleNotFoundError("TRITON_INTERPRET=1 needs Triton, which is not installed.")
        return "Triton is not installed; on Linux the 'test' extra brings it"
    if torch.cuda.is_available() or is_interpreted:
        return ""
    return "kernels need a GPU, or TRITON_INTERPRET=1 in the environment from the start"
