"""How products are cut: tiles fit the device, and keep to what a row's result may depend on."""

from dataclasses import replace
from itertools import product

import pytest

from antiphon.nn.kernels import product_tiles
from antiphon.nn.kernels.product_tiles import (
    ProductShape,
    WideTile,
    held_tile,
    invariant_tile,
    largest_power,
    thin_tile,
    wide_tile,
)
from antiphon.nn.kernels.shared_memory import stages_within

SHARED_BYTES = (227 * 1024, 163 * 1024, 99 * 1024)
SHAPES = tuple(
    ProductShape(num_outputs, num_inputs, num_halves, itemsize)
    for (num_outputs, num_inputs), num_halves, itemsize in product(
        ((4096, 2048), (2048, 2048), (6144, 2048), (2048, 6144), (1024, 3072), (96, 48)),
        (1, 2),
        (2, 4),
    )
)


@pytest.mark.parametrize("num_bytes", SHARED_BYTES)
@pytest.mark.parametrize("shape", SHAPES)
def test_tiles_fit_and_divide_the_outputs(shape: ProductShape, num_bytes: int) -> None:
    tiles = [wide_tile(shape, num_rows, num_bytes) for num_rows in (5, 8, 16, 17, 32, 33, 64)]
    for tile in (*tiles, invariant_tile(shape, num_bytes)):
        assert tile.shared_bytes(shape.num_halves, shape.itemsize) < num_bytes
        assert shape.num_outputs % tile.outputs == 0
        assert tile.rows >= 16
        assert tile.num_stages >= 2
    for num_rows in (1, 2, 4):
        thin = thin_tile(shape, num_rows)
        assert thin is not None
        assert shape.num_outputs % thin.outputs == 0
        assert shape.num_inputs % thin.inputs == 0


def test_rows_of_a_large_product_are_multiplied_on_tensor_cores() -> None:
    large, small = ProductShape(18944, 3584, 2, 2), ProductShape(3584, 3584, 1, 2)
    assert thin_tile(large, 1) is not None
    assert thin_tile(large, 2) is None
    assert thin_tile(replace(large, itemsize=4), 2) is not None, "there are none for float32"
    assert thin_tile(small, 4) is not None


@pytest.mark.parametrize("num_inputs", [3584, 8192, 18944, 65536])
@pytest.mark.parametrize("num_rows", [1, 2])
@pytest.mark.parametrize("itemsize", [2, 4])
def test_a_program_of_a_handful_of_rows_holds_what_registers_have_room_for(
    num_inputs: int, num_rows: int, itemsize: int
) -> None:
    tile = thin_tile(ProductShape(3584, num_inputs, 1, itemsize), num_rows)
    if tile is not None:
        num_bytes = tile.outputs * num_inputs * itemsize
        assert tile.outputs == 1 or num_bytes <= 640 * 32 * tile.num_warps


def test_the_largest_product_gets_blocks_as_small_as_its_rows_allow() -> None:
    largest, other = ProductShape(6144, 2048, 2, 2), ProductShape(2048, 1024, 1, 2)
    numbers = (5, 16, 17, 32, 33, 64)
    rows = [wide_tile(largest, num_rows, SHARED_BYTES[0]).rows for num_rows in numbers]
    assert rows == [16, 16, 32, 32, 64, 64]
    same = {wide_tile(other, num_rows, SHARED_BYTES[0]) for num_rows in numbers}
    assert same == {invariant_tile(other, SHARED_BYTES[0])}


def test_few_outputs_of_few_rows_hold_their_weights_where_they_fit() -> None:
    few, deep = ProductShape(1024, 3072, 1, 2), ProductShape(1024, 2048, 1, 2)
    for shape, num_rows, expected in ((few, 16, 4), (deep, 16, 8), (deep, 17, 4), (deep, 32, 4)):
        tile = held_tile(shape, num_rows, SHARED_BYTES[0])
        assert tile is not None
        assert (tile.outputs, tile.num_warps) == (16, expected)
        assert tile.rows >= num_rows
        assert shape.num_inputs % tile.inputs == 0
    others = [
        (few, 17),
        (deep, 33),
        (ProductShape(2048, 2048, 1, 2), 8),
        (ProductShape(1024, 3072, 2, 2), 8),
        (ProductShape(1024, 3072, 1, 4), 8),
        (ProductShape(1000, 3072, 1, 2), 8),
    ]
    assert all(held_tile(shape, rows, SHARED_BYTES[0]) is None for shape, rows in others)
    assert held_tile(few, 8, SHARED_BYTES[-1]) is None, "there is no room for them"


def test_programs_of_wide_layers_share_multiprocessors() -> None:
    room = SHARED_BYTES[0]
    for num_outputs, num_together in ((4096, 1), (4608, 2), (6144, 2)):
        tile = wide_tile(ProductShape(num_outputs, 2560, 1, 2), 64, room)
        assert room // tile.shared_bytes(1, 2) == num_together


def test_a_small_device_changes_only_how_far_loads_are_ahead() -> None:
    for shape in SHAPES:
        if shape.itemsize > 2:
            continue
        large, small = (invariant_tile(shape, each) for each in (SHARED_BYTES[0], SHARED_BYTES[-1]))
        assert (large.rows, large.outputs, large.inputs) == (small.rows, small.outputs, 128)


@pytest.mark.parametrize(("number", "most", "power"), [(96, 64, 32), (96, 17, 16), (7, 8, 1)])
def test_largest_power(number: int, most: int, power: int) -> None:
    assert largest_power(number, most) == power


def test_stages_follow_the_shared_memory() -> None:
    block_bytes = 256 * (64 + 16) * 2
    assert [stages_within(4, block_bytes, each) for each in SHARED_BYTES] == [4, 4, 3]
    assert stages_within(8, 2**20, SHARED_BYTES[0]) == 2, "a loop without loads ahead has no room"
    assert stages_within(3, 1, SHARED_BYTES[-1]) == 3


def test_inputs_are_split_where_programs_would_be_too_few() -> None:
    room = SHARED_BYTES[0]
    for num_outputs, num_inputs in ((2560, 4096), (2560, 9728), (2048, 6144), (4096, 11008)):
        shape = ProductShape(num_outputs, num_inputs, 1, 2)
        for num_rows in (2, 8, 32, 64):
            tile = wide_tile(shape, num_rows, room)
            assert tile.splits > 1
            assert 132 < shape.num_outputs // tile.outputs * tile.splits <= 2 * 132
            assert room // tile.shared_bytes(1, 2) >= 2, "two programs share a multiprocessor"
            assert shape.num_inputs // tile.splits >= 512
    others = (
        ProductShape(2560, 9728, 2, 2),
        ProductShape(2560, 9728, 1, 4),
        ProductShape(6144, 9728, 1, 2),
        ProductShape(2560, 2560, 1, 2),
    )
    assert {wide_tile(shape, 8, room).splits for shape in others} == {1}
    assert invariant_tile(ProductShape(2560, 9728, 1, 2), room).splits == 1


def test_measured_tiles_go_before_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    shape, room, tile = ProductShape(1024, 4096, 1, 2), SHARED_BYTES[0], WideTile(64, 64, 64, 4, 3)
    by_rules = [(held_tile(shape, rows, room), wide_tile(shape, rows, room)) for rows in (16, 64)]
    found = {(1024, 4096, 1): ((8, tile), (16, None), (32, replace(tile, splits=2)))}
    monkeypatch.setattr(product_tiles, "_MEASURED_TILES", found)
    assert wide_tile(shape, 8, room) == tile
    assert wide_tile(shape, 17, room).splits == 2
    assert held_tile(shape, 8, room) is held_tile(shape, 17, room) is None
    assert by_rules == [
        (held_tile(shape, rows, room), wide_tile(shape, rows, room)) for rows in (16, 64)
    ]
    assert wide_tile(replace(shape, itemsize=4), 8, room).num_stages == 2
