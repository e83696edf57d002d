"""Asynchronous device-to-host copy of exported hidden states."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from antiphon.contracts.types import PositionStates
from antiphon.nn.device_writes import Download


class HiddenStatesCopy:
    """Hidden states of several slots, in one copy to the host."""

    def __init__(self, states: Mapping[int, tuple[int, Tensor]]) -> None:
        """Start the copy on the current stream.

        Args:
            states: result of `SupportsHiddenStates.hidden_states`, of at least one slot.
        """
        self._starts = {slot: start for slot, (start, _) in states.items()}
        tensors = [tensor for _, tensor in states.values()]
        self._sizes = [len(tensor) for tensor in tensors]
        self._download = Download(torch.cat(tensors).float())

    def by_slot(self) -> dict[int, PositionStates]:
        """Wait for the copy; return the states of each slot."""
        states = self._download.wait().numpy()
        parts = np.split(states, np.cumsum(self._sizes)[:-1])
        return {
            slot: PositionStates(start, part.copy())
            for (slot, start), part in zip(self._starts.items(), parts, strict=True)
        }
