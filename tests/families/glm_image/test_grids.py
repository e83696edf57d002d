"""Grids of codes and their positions, by the rules that they follow."""

import numpy as np
import pytest

from antiphon.families.glm_image.grids import Grid, SourceImage, positions_of


@pytest.mark.parametrize(
    ("width", "height", "preview"),
    [(1024, 1024, (16, 16)), (2048, 1024, (11, 22)), (64, 96, (19, 13)), (32, 32 * 300, (277, 0))],
)
def test_a_preview_has_about_256_codes_of_the_same_aspect_ratio(
    width: int, height: int, preview: tuple[int, int]
) -> None:
    grid = Grid.of(width, height)
    assert (grid.height, grid.width) == (height // 32, width // 32)
    assert (grid.preview.height, grid.preview.width) == preview


def test_text_moves_along_all_axes_and_codes_along_rows_and_columns() -> None:
    positions = positions_of(4, (), (Grid(1, 2), Grid(2, 3)))
    text, preview, image = np.split(positions, [4, 6])
    np.testing.assert_array_equal(text, np.repeat(np.arange(4)[:, None], 3, axis=1))
    np.testing.assert_array_equal(preview, [[4, 4, 4], [4, 4, 5]])
    # The preview's longer side is 2: the image begins at 6.
    rows = [[6, 6 + row, 6 + column] for row in range(2) for column in range(3)]
    np.testing.assert_array_equal(image, rows)


def test_text_goes_on_behind_an_image_in_the_prompt() -> None:
    positions = positions_of(2 + 6 + 1, (SourceImage(Grid(3, 2), 2),), (Grid(1, 1),))
    assert positions[1].tolist() == [1, 1, 1]
    assert positions[2].tolist() == [2, 2, 2]
    assert positions[7].tolist() == [2, 4, 3]  # the last of 3 rows and 2 columns
    assert positions[8].tolist() == [5, 5, 5]
    assert positions[9].tolist() == [6, 6, 6]
    assert len(positions) == 10
