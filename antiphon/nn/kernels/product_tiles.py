"""Tiles of products of few rows, by shape and device.

On tensor cores a program computes some outputs of a block of rows. Most products are fastest in
blocks of 64 rows, which Hopper's instructions compute at once for any smaller number too; the gated
product of a wide layer, which has the most programs, in blocks as small as the rows allow: measured
on an H200, with the products in the order of a frame. Products of few outputs and many inputs are
split among programs by their inputs (`antiphon.nn.kernels.wide_product`). The number of loads in
flight follows from the shared memory of a program, and changes no result.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from torch import Tensor

from antiphon.nn.kernels.shared_memory import SPARE_BYTES

_MIN_STAGES = 2
_MIN_INPUTS = 32


@dataclass(frozen=True, slots=True)
class ThinTile:
    """Tile of a product of a handful of rows, all computed by one program."""

    outputs: int
    inputs: int
    num_warps: int


@dataclass(frozen=True, slots=True)
class HeldTile:
    """Tile of a product of up to `rows` rows, whose programs hold their whole weight.

    Attributes:
        rows: rows of matrix instructions, 16 or 32.
        inputs: inputs multiplied at a time, an equal part by each warp.
    """

    rows: int
    outputs: int
    inputs: int
    num_warps: int


@dataclass(frozen=True, slots=True)
class WideTile:
    """Tile of a product on tensor cores.

    Attributes:
        rows: rows per program, at least 16, the minimum of a matrix instruction.
        outputs: outputs per program; of each half if the product is gated.
        num_stages: blocks of inputs in shared memory: those loaded ahead, and the one in use.
        splits: programs that share the inputs; the last one to finish joins their sums.
    """

    rows: int
    outputs: int
    inputs: int
    num_warps: int
    num_stages: int
    splits: int = 1

    def shared_bytes(self, num_halves: int, itemsize: int) -> int:
        """Return the maximum shared memory of a program."""
        return self.num_stages * self.inputs * (self.rows + self.outputs * num_halves) * itemsize

    def within(self, num_bytes: int, num_halves: int, itemsize: int) -> "WideTile":
        """Return a tile with fewer loads ahead that fits into this shared memory."""
        tile = self
        while tile.shared_bytes(num_halves, itemsize) > num_bytes:
            if tile.num_stages > _MIN_STAGES:
                tile = replace(tile, num_stages=tile.num_stages - 1)
            elif tile.inputs > _MIN_INPUTS:
                tile = replace(tile, inputs=tile.inputs // 2)
            else:
                break
        return tile


@dataclass(frozen=True, slots=True)
class ProductShape:
    """Shape of a product.

    Attributes:
        num_outputs: number of outputs, of one half if the product is gated.
        num_halves: 2 if the product is gated, otherwise 1.
        itemsize: bytes per number of the weight.
    """

    num_outputs: int
    num_inputs: int
    num_halves: int
    itemsize: int


Factors: TypeAlias = tuple[Tensor, Tensor | None, Tensor | None]
"""Weight, scales of its outputs, and bias."""


@dataclass(frozen=True, slots=True)
class Fused:
    """What is fused with a product.

    Attributes:
        is_normed: whether the inputs are divided by their norm.
        is_added: whether the result is added to states and prepared for the next norm.
        is_biased: whether a bias is added.
    """

    is_normed: bool = False
    is_added: bool = False
    is_biased: bool = False

    @property
    def is_plain(self) -> bool:
        return not (self.is_normed or self.is_added)

    @property
    def macros(self) -> dict[str, int]:
        """Definitions in a program's source."""
        flags = {"NORMED": self.is_normed, "ADDED": self.is_added, "BIASED": self.is_biased}
        return {name: int(flag) for name, flag in flags.items()}


_INVARIANT_ROWS = 64  # per tile, for any number of rows
_THIN_NUMBERS = 8192  # of the weight, per program
_THIN_WARPS = 4
_THIN_INPUTS = 2048
_THIN_WEIGHT_NUMBERS = 2**25  # limit of the whole weight for more than one row
_THIN_MOST_INPUTS = 8192  # limit of inputs for more than one row
_NARROW = 2048  # outputs or inputs of a narrow layer
_WIDE_LAYER_NUMBERS = 40960  # as `_THIN_NUMBERS`, in half precision, in wider layers
_HELD_OUTPUTS = 16
_HELD_MOST_OUTPUTS = 1024
_HELD_INPUTS_PER_WARP = 256
_FEW_OUTPUTS = 2048  # these need small tiles, or many multiprocessors idle
_MANY_OUTPUTS = 4096  # these give more than one program per multiprocessor
_MOST_OUTPUTS = 8192  # and these several
_PROGRAMS_AT_ONCE = 132  # multiprocessors of an H200
_MOST_SPLITS = 8  # most sums read by one program
_LEAST_SPLIT_INPUTS = 512  # inputs of a split at least
_LONG_OF_64 = WideTile(64, 32, 128, 4, 4)
_SHORT_OF_64 = WideTile(64, 32, 64, 4, 4)
_MEASURED_TILES: Mapping[tuple[int, int, int], tuple[tuple[int, WideTile | None], ...]] = {
    # Outputs, inputs and halves: highest number of rows and the tile, `None` for the rules below.
    (6144, 2048, 2): (
        (16, WideTile(16, 32, 128, 4, 4)),
        (32, WideTile(32, 64, 128, 4, 4)),
        (64, WideTile(64, 64, 64, 4, 6)),
    ),
    (9728, 2560, 2): ((16, WideTile(16, 32, 128, 4, 3)), (32, None), (64, _SHORT_OF_64)),
    (18944, 3584, 2): ((16, None), (32, WideTile(32, 64, 128, 4, 4))),
    (4096, 1024, 2): ((64, _LONG_OF_64),),
    (6144, 2560, 1): ((16, WideTile(16, 64, 128, 4, 4, splits=2)),),
    (4608, 3584, 1): (
        (32, WideTile(64, 64, 64, 4, 4, splits=5)),
        (64, WideTile(64, 64, 128, 4, 3, splits=3)),
    ),
    (2560, 2048, 1): ((16, WideTile(16, 64, 128, 4, 4, splits=6)),),
    (2048, 2048, 1): ((32, replace(_LONG_OF_64, splits=4)),),
    (3584, 3584, 1): ((32, replace(_LONG_OF_64, splits=2)),),
    (3584, 18944, 1): ((16, WideTile(64, 64, 64, 4, 4, splits=7)),),
    # Up to 16 rows hold their weights.
    (1024, 4096, 1): ((16, None), (64, replace(_LONG_OF_64, splits=8))),
    (1024, 3072, 1): ((16, None), (64, replace(_LONG_OF_64, splits=8))),
}
"""Tiles for half precision, measured on an H200, with the products in the order of a frame."""
_SPLIT_INPUTS = 4096
"""Inputs from which on a product is split if multiprocessors would idle, with two programs for
each. In us on an H200, split and not: 17.2 and 26.9 for 8 rows of 2560 outputs and 9728 inputs,
19.8 and 27.3 for 64, 10.2 and 15.5 for 8 rows of 2048 outputs and 6144 inputs."""


def thin_tile(shape: ProductShape, num_rows: int) -> ThinTile | None:
    """Return the tile of a product of a handful of rows, ``None`` for tensor cores.

    While a large weight is read, there is time for few multiplications of each of its numbers
    without tensor cores: in us on an H200, 61 for a row of 2 x 18944 outputs of 3584 inputs, 114
    for four, where reading takes 65; 33 and 57 for 3584 outputs of 18944 inputs. Tensor cores take
    41 for the latter, and 17 instead of 20 for 2560 outputs of 9728 inputs.

    Wide layers have programs of more outputs than narrow ones: each reads a sum of squares from
    every program of the previous product, and at one row the tile hardly affects the time.
    """
    num_numbers = shape.num_outputs * shape.num_halves * shape.num_inputs
    is_long = num_numbers > _THIN_WEIGHT_NUMBERS or shape.num_inputs > _THIN_MOST_INPUTS
    if num_rows > 1 and is_long and shape.itemsize == 2:
        return None
    inputs = largest_power(shape.num_inputs, _THIN_INPUTS)
    outputs, num_warps = _THIN_NUMBERS // shape.num_inputs // shape.num_halves, _THIN_WARPS
    if min(shape.num_outputs, shape.num_inputs) > _NARROW and num_rows == 1:
        most = 2 * _WIDE_LAYER_NUMBERS // shape.itemsize
        outputs = most // shape.num_inputs // shape.num_halves
        if shape.num_inputs <= 8192:
            outputs, num_warps = min(outputs, 4), 8
    elif min(shape.num_outputs, shape.num_inputs) > _NARROW and shape.num_inputs <= 4096:
        outputs, num_warps = min(max(1, outputs), 2), 2
    outputs = largest_power(shape.num_outputs, max(1, outputs))
    return ThinTile(outputs, inputs, num_warps)


def held_tile(shape: ProductShape, num_rows: int, max_shared_bytes: int) -> HeldTile | None:
    """Return the tile of a product whose programs hold their weights, ``None`` if none should.

    Products of few outputs would leave half of the multiprocessors idle in tiles of 64 rows, and
    their time is the wait for the weight. In us on an H200, held and not, with 1024
    outputs: 4.6 and 6.2 for 8 rows of 2048 inputs, 4.4 and 8.5 for 3072, 5.7 and 10.6 for 4096; for
    24 rows 5.2 and 6.3, 6.1 and 8.5, 7.6 and 10.7. More rows or outputs gain nothing.
    """
    if _measured_tile(shape, num_rows) is not None:
        return None
    is_few = shape.num_outputs <= _HELD_MOST_OUTPUTS and shape.num_outputs % _HELD_OUTPUTS == 0
    if num_rows > 32 or shape.itemsize != 2 or shape.num_halves > 1 or not is_few:
        return None
    if num_rows <= 16:
        inputs = largest_power(shape.num_inputs, _THIN_INPUTS)
        tile = HeldTile(16, _HELD_OUTPUTS, inputs, inputs // _HELD_INPUTS_PER_WARP)
    else:
        tile = HeldTile(32, _HELD_OUTPUTS, largest_power(shape.num_inputs, 512), 4)
    num_bytes = tile.inputs * tile.rows + shape.num_inputs * tile.outputs
    is_fitting = num_bytes * shape.itemsize <= max_shared_bytes - SPARE_BYTES
    return tile if is_fitting and tile.num_warps >= 4 and tile.inputs >= 512 else None


def wide_tile(shape: ProductShape, num_rows: int, max_shared_bytes: int) -> WideTile:
    """Return the tile of a product that fits the device's shared memory."""
    if shape.itemsize > 2:
        tile = _tile_of_64(shape, num_stages=2)
    elif (measured := _measured_tile(shape, num_rows)) is not None:
        tile = measured
    elif (split := _split_tile(shape, num_rows)) is not None:
        tile = split
    elif shape.num_halves == 1 or shape.num_outputs < _MANY_OUTPUTS:
        tile = _tile_of_64(shape)
    elif num_rows <= 16:
        tile = WideTile(16, 32, 128, 4, 4)
    elif num_rows <= 32:
        tile = WideTile(32, 64 if shape.num_outputs < _MOST_OUTPUTS else 32, 128, 4, 4)
    else:
        tile = WideTile(64, 64, 64, 4, 6)
    return _fitting(tile, shape, max_shared_bytes)


def invariant_tile(shape: ProductShape, max_shared_bytes: int) -> WideTile:
    """Return the tile of a batch-invariant product.

    All numbers of rows use the same instructions over a sum in the same order.
    """
    num_stages = 6 if shape.itemsize == 2 else 2
    return _fitting(_tile_of_64(shape, num_stages=num_stages), shape, max_shared_bytes)


def _tile_of_64(shape: ProductShape, num_stages: int = 6) -> WideTile:
    outputs = 16 if shape.num_outputs <= _FEW_OUTPUTS else 32
    if shape.num_outputs > outputs * _PROGRAMS_AT_ONCE:
        # Two programs share a multiprocessor: one round, 12.9 us instead of 17.3 (6144 x 2560).
        num_stages = min(num_stages, 4)
    return WideTile(_INVARIANT_ROWS, outputs, 128, 4, num_stages)


def _measured_tile(shape: ProductShape, num_rows: int) -> WideTile | None:
    key = shape.num_outputs, shape.num_inputs, shape.num_halves
    entries = _MEASURED_TILES.get(key, ()) if shape.itemsize == 2 else ()
    return next((tile for most_rows, tile in entries if num_rows <= most_rows), None)


def _split_tile(shape: ProductShape, num_rows: int) -> WideTile | None:
    """Return a split tile with two programs per multiprocessor, if the product should be split."""
    if shape.num_halves > 1 or shape.num_outputs >= _tile_of_64(shape).outputs * _PROGRAMS_AT_ONCE:
        return None
    if shape.num_inputs < _SPLIT_INPUTS or num_rows > _LONG_OF_64.rows:
        return None
    num_tiles = shape.num_outputs // largest_power(shape.num_outputs, _LONG_OF_64.outputs)
    most = min(_MOST_SPLITS, shape.num_inputs // _LEAST_SPLIT_INPUTS)
    return replace(_LONG_OF_64, splits=min(most, max(1, 2 * _PROGRAMS_AT_ONCE // num_tiles)))


def _fitting(tile: WideTile, shape: ProductShape, max_shared_bytes: int) -> WideTile:
    tile = replace(tile, outputs=largest_power(shape.num_outputs, tile.outputs))
    return tile.within(max_shared_bytes - SPARE_BYTES, shape.num_halves, shape.itemsize)


def largest_power(number: int, most: int) -> int:
    """Return the largest power of two that divides ``number`` and is at most ``most``."""
    return min(number & -number, 1 << (most.bit_length() - 1))
