"""Configs of the codec's convolution kernels, by shape, measured on an H200.

A config changes the speed of a product, never its result: all of these run the same instructions
over a sum in the same order (see `antiphon.nn.kernels.causal_conv`). Products with a norm of their
inputs are the exception, and have one config for all numbers of columns.
"""

from torch import Tensor

from antiphon.nn.kernels.causal_conv import ConvWeights
from antiphon.nn.kernels.causal_conv import KernelConfig as Config
from antiphon.nn.kernels.shared_memory import TURING_BYTES, max_shared_bytes

NORM_CONFIG = Config(64, 128, 64, 4, 4)
_DEEP_INPUTS = 2048  # of all taps: sums so long that few programs result


def config_of(conv: ConvWeights, num_columns: int) -> Config:
    """Return the config of a product with this number of columns."""
    depth, width = conv.weight.shape
    if num_columns <= 256:
        return _few_columns(depth, width, num_columns)
    if num_columns <= 2560:
        return _some_columns(depth, width, num_columns)
    if depth <= 768 and width <= depth:
        return Config(64, 128, 64, 4, 3)
    if width == 288:
        return Config(128, 64, 32, 4, 3)
    if depth >= 5376:
        return Config(128, 256, 64, 8, 3) if num_columns <= 4096 else Config(128, 128, 64, 8, 3)
    return Config(128, 128, 64, 4, 3)


def unit_config(active: Tensor) -> Config | None:
    """Return the config of a residual unit in one kernel, ``None`` if two are faster or fit."""
    num_columns, num_channels = active.shape
    if num_channels == 96:
        return Config(64, 0, 32, 4, 4)
    is_tight = max_shared_bytes(active) <= TURING_BYTES
    if num_channels == 192 and (num_columns <= 2560 or is_tight):
        return None  # too few programs, each of which reads all the weights
    return Config(64, 0, 64, 4, 3)


def _few_columns(depth: int, width: int, num_columns: int) -> Config:
    if num_columns <= 64:
        return Config(64, 64, 128, 4, 4) if width >= 1536 else Config(64, 32, 256, 4, 3)
    if width >= 4096:
        return Config(64, 64, 64, 4, 5)
    if depth >= _DEEP_INPUTS and width == 1024:
        return Config(64, 16, 256, 4, 4) if num_columns <= 128 else Config(64, 64, 128, 4, 4)
    return Config(64, 32, 128, 4, 4)


def _some_columns(depth: int, width: int, num_columns: int) -> Config:
    is_deep = depth >= _DEEP_INPUTS
    if width <= 384:
        return Config(64, 32, 128, 4, 4) if num_columns <= 1024 else Config(64, 64, 64, 4, 5)
    if num_columns > 1024 or (is_deep and width < 1920 and num_columns > 512):
        return Config(64, 128, 64, 4, 4)
    if width < 1920:
        return Config(64, 64, 64, 4, 5)
    return Config(128, 128, 64, 4, 3) if is_deep else Config(128, 128, 64, 8, 4)
