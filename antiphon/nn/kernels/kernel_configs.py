"""Tile sizes of the codec's convolution kernels, by shape, measured on an H200.

A config changes the speed of a product, never its result: all of these run the same instructions
over a sum in the same order (see `antiphon.nn.kernels.causal_conv`). Products that norm their
inputs are the exception, and have one config for all numbers of columns.
"""

from antiphon.nn.kernels.causal_conv import ConvWeights, Tile

NORM_TILE = Tile(64, 128, 64, 4, 4)
_DEEP_INPUTS = 2048  # of all taps: so long a sum that few programs take it up


def tile_of(taps: ConvWeights, num_columns: int) -> Tile:
    """Return the tile of a product with so many columns."""
    depth, width = taps.weight.shape
    if num_columns <= 256:
        return _tile_of_few(depth, width, num_columns)
    if num_columns <= 2560:
        return _tile_of_some(depth, width, num_columns)
    if depth <= 768 and width <= depth:
        return Tile(64, 128, 64, 4, 3)
    if width == 288:
        return Tile(128, 64, 32, 4, 3)
    if depth >= 5376:
        return Tile(128, 256, 64, 8, 3) if num_columns <= 4096 else Tile(128, 128, 64, 4, 4)
    return Tile(128, 128, 64, 4, 3)


def unit_tile(num_channels: int, num_columns: int) -> Tile | None:
    """Return the tile of a residual unit in one kernel, ``None`` if two are faster."""
    if num_channels == 96:
        return Tile(64, 0, 32, 4, 4)
    if num_channels == 192 and num_columns <= 2560:
        return None  # too few programs, each of which reads all the weights
    return Tile(64, 0, 64, 4, 3)


def _tile_of_few(depth: int, width: int, num_columns: int) -> Tile:
    if num_columns <= 64:
        return Tile(64, 64, 128, 4, 4) if width >= 1536 else Tile(64, 32, 256, 4, 3)
    if width >= 4096:
        return Tile(64, 64, 64, 4, 5)
    if depth >= _DEEP_INPUTS and width == 1024:
        return Tile(64, 16, 256, 4, 4) if num_columns <= 128 else Tile(64, 64, 128, 4, 4)
    return Tile(64, 32, 128, 4, 4)


def _tile_of_some(depth: int, width: int, num_columns: int) -> Tile:
    is_deep = depth >= _DEEP_INPUTS
    if width <= 384:
        return Tile(64, 32, 128, 4, 4) if num_columns <= 1024 else Tile(64, 64, 64, 4, 5)
    if num_columns > 1024 or (is_deep and width < 1920 and num_columns > 512):
        return Tile(64, 128, 64, 4, 4)
    if width < 1920:
        return Tile(64, 64, 64, 4, 5)
    return Tile(128, 128, 64, 4, 3) if is_deep else Tile(128, 128, 64, 8, 4)
