"""Audio on its way from a decoder's device to the host."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from antiphon.contracts.types import Samples
from antiphon.nn.device_writes import Download, upload

FrameStore: TypeAlias = Tensor | NDArray[np.integer[Any]]
"""Frames of all slots, ``[num_slots, num_kept, frame_size]``, on the device or on the host."""


@dataclass(frozen=True, slots=True)
class PendingDownloads:
    """An `antiphon.codec.protocol.PendingAudio`: asynchronous copies to the host.

    Attributes:
        downloads: copies, each with the indices of the samples of its slots.
    """

    downloads: Sequence[tuple[Mapping[int, Any], Download]]

    @property
    def is_done(self) -> bool:
        return all(download.is_done for _, download in self.downloads)

    def wait(self) -> None:
        for _, download in self.downloads:
            download.wait()

    def result(self) -> dict[int, Samples]:
        # A view instead of a copy would keep the pinned memory of the whole download alive.
        return {
            slot: download.wait().numpy()[index].flatten()
            for places, download in self.downloads
            for slot, index in places.items()
        }


def stored_frames(frame_store: FrameStore, places: NDArray[np.int64], like: Tensor) -> Tensor:
    """Return frames of a frame store, ``[*places.shape, frame_size]``, on the device of ``like``.

    Args:
        places: indices of frames in ``[num_slots * num_kept]``.
        like: tensor on the device.
    """
    if isinstance(frame_store, Tensor):
        return frame_store.flatten(0, 1)[upload(places, like.device)]
    return upload(frame_store.reshape(-1, frame_store.shape[2])[places], like.device)
