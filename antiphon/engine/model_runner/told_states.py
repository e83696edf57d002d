"""States of a model's positions on their way to the stage after, beside its frames."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from antiphon.contracts.types import PositionStates
from antiphon.nn.host_device import Download


class ToldStates:
    """States of several slots, in one copy to the host."""

    def __init__(self, told: Mapping[int, tuple[int, Tensor]]) -> None:
        """Begin to copy on the current stream.

        Args:
            told: of `antiphon.engine.model_runner.ar_model.StateTelling`, for at least one slot.
        """
        self._starts = {slot: start for slot, (start, _) in told.items()}
        states = [each for _, each in told.values()]
        self._sizes = [len(each) for each in states]
        self._download = Download(torch.cat(states).float())

    def by_slot(self) -> dict[int, PositionStates]:
        """Wait for the copy; return the states of each slot."""
        states = self._download.wait().numpy()
        parts = np.split(states, np.cumsum(self._sizes)[:-1])
        return {
            slot: PositionStates(start, part.copy())
            for (slot, start), part in zip(self._starts.items(), parts, strict=True)
        }
