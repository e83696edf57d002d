"""Grids of codes: their sizes, the order in which they are drawn, and the positions of codes.

A prior draws the codes of a small preview of the image first, then those of the image, row by row.
A position has three axes: text moves along all of them; in a grid the first stands still, and the
others are row and column. What comes after a grid begins where its longer side ends.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from antiphon.engine.model_runner.ar_model import Codes
from antiphon.families.glm_image.config import CODE_PIXELS

_PREVIEW_SIDE = 16  # of a square preview, in codes

Positions = NDArray[np.int64]
"""Of some ids or codes, ``[length, 3]``."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Rows and columns of codes."""

    height: int
    width: int

    @property
    def num_codes(self) -> int:
        return self.height * self.width

    @classmethod
    def of(cls, width: int, height: int) -> "Grid":
        """Return the grid of an image's size in pixels."""
        return cls(height // CODE_PIXELS, width // CODE_PIXELS)

    @property
    def preview(self) -> "Grid":
        """The grid of the preview: about 256 codes of the same aspect ratio."""
        ratio = self.height / self.width
        height, width = math.sqrt(ratio) * _PREVIEW_SIDE, math.sqrt(1 / ratio) * _PREVIEW_SIDE
        return Grid(int(height), int(width))

    def positions(self, start: int) -> Positions:
        """Return those of its codes, row by row, if it begins at position ``start``."""
        rows, columns = np.indices((self.height, self.width)).reshape(2, -1)
        return np.stack((np.full_like(rows, start), start + rows, start + columns), axis=1)

    @property
    def extent(self) -> int:
        """By how much what comes after it is farther on."""
        return max(self.height, self.width)


@dataclass(frozen=True, slots=True)
class SourceImage:
    """The codes of an image in a prompt.

    Attributes:
        place: index of the first code among the prompt's ids.
    """

    grid: Grid
    place: int


def positions_of(num_ids: int, sources: Sequence[SourceImage], drawn: Sequence[Grid]) -> Positions:
    """Return the positions of a prompt's ids, and of the codes of grids drawn after them."""
    pieces, num_done, position = [], 0, 0
    for each in sources:
        length = each.place - num_done
        pieces += [_text(position, length), each.grid.positions(position + length)]
        position += length + each.grid.extent
        num_done = each.place + each.grid.num_codes
    pieces.append(_text(position, num_ids - num_done))
    position += num_ids - num_done
    for grid in drawn:
        pieces.append(grid.positions(position))
        position += grid.extent
    return np.concatenate(pieces)


def _text(start: int, length: int) -> Positions:
    return np.repeat(np.arange(start, start + length)[:, None], 3, axis=1)


@dataclass(frozen=True, slots=True)
class PriorPrompt:
    """Input of the prior.

    Attributes:
        ids: ids of text, images and sizes; the first code is sampled after the last one.
        grids: grids of codes to sample, in order; the last one is that of the image.
        sources: images to be edited, in ``ids``.
    """

    ids: tuple[int, ...]
    grids: tuple[Grid, ...]
    sources: tuple[SourceImage, ...] = ()

    @property
    def num_codes(self) -> int:
        """Codes of all grids: exactly so many are drawn."""
        return sum(grid.num_codes for grid in self.grids)

    @property
    def positions(self) -> Positions:
        """Those of the ids, and of all codes after them."""
        return positions_of(len(self.ids), self.sources, self.grids)

    def image_codes(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Cut the image's codes, ``[height, width]``, out of all that were drawn."""
        grid = self.grids[-1]
        assert codes.shape == (self.num_codes,), "the grids are not full"
        return codes[-grid.num_codes :].reshape(grid.height, grid.width)


@dataclass(frozen=True, slots=True, eq=False)
class PriorRequest:
    """A request in a slot.

    Attributes:
        ids: ids of the prompt, and the codes sampled before the slot was taken.
    """

    prompt: PriorPrompt
    ids: NDArray[np.int64]

    @classmethod
    def of(cls, prompt: PriorPrompt, made: Codes) -> "PriorRequest":
        """Begin a request, or go on after the codes that it has drawn."""
        return cls(prompt, np.concatenate((np.array(prompt.ids, np.int64), made[:, 0])))
