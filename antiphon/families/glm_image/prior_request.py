"""Prompt of the prior, and the host state of a request while codes are sampled."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from antiphon.engine.model_runner.ar_model import Codes
from antiphon.families.glm_image.grids import Grid, Positions, SourceImage, positions_of


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
