"""A codec's decoder on the host, or in float32: exact, row by row, with PyTorch alone.

PyTorch adds in an order that depends on shapes: a row would differ in its last bits by the rows
decoded beside it, and by how its frames are grouped. So rows are decoded one by one, and frames in
groups that follow from their numbers: the first by itself, then always as many at a time. A call
that ends within a group decodes all of it, whatever the frames to come will be, since they change
nothing before them; the next call does it again.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from antiphon.codec.host.row_decoder import RowDecoder
from antiphon.contracts.types import Samples
from antiphon.nn.codec_layers.state import DecoderState
from antiphon.nn.codec_layers.windowed_decoder import WindowedDecoder
from antiphon.nn.device_writes import upload

_FIRST_GROUP, _GROUP = 1, 4


@dataclass(frozen=True, slots=True)
class GroupedState:
    """The streams of all slots.

    Attributes:
        state: State of each slot after its last whole group.
        partial: the frames of the group after that, as far as they have been decoded, by slot.
            A slot whose first group is still to come is not in it.
    """

    state: DecoderState
    partial: dict[int, NDArray[Any]] = field(default_factory=dict)


class GroupedDecoder(RowDecoder):
    """An `antiphon.codec.protocol.StreamingDecoder`; a frame is its codes, ``[num_quantizers]``."""

    chunk_sizes = tuple(range(1, _GROUP + 1))
    pass_frames = _GROUP

    def __init__(
        self, decoder: WindowedDecoder, *, sample_rate_hz: int, samples_per_frame: int
    ) -> None:
        self._decoder = decoder
        self.sample_rate_hz = sample_rate_hz
        self.samples_per_frame = samples_per_frame

    @torch.inference_mode()
    def open(self, num_slots: int) -> GroupedState:
        return GroupedState(self._decoder.open(num_slots))

    @torch.inference_mode()
    def reset(self, state: GroupedState, slot: int, conditioning: None = None) -> None:
        state.state.reset(slot)
        state.partial.pop(slot, None)

    def prime(self, state: GroupedState, slot: int, frames: NDArray[Any]) -> None:
        """Prime a fresh slot; what is decoded after it begins with a first group."""
        self._decode(frames, state, slot, is_kept=True)

    def decode_row(self, frames: NDArray[Any], state: GroupedState, slot: int) -> Samples:
        frames = np.asarray(frames)
        parts: list[Samples] = [np.zeros(0, np.float32)]
        while len(frames):
            partial = state.partial.get(slot, frames[:0])
            size = _GROUP if slot in state.partial else _FIRST_GROUP
            group = np.concatenate((partial, frames[: size - len(partial)]))
            is_whole = len(group) == size
            padded = np.pad(group, ((0, size - len(group)), (0, 0)), mode="edge")
            audio = self._decode(padded, state, slot, is_kept=is_whole)
            start, end = (len(each) * self.samples_per_frame for each in (partial, group))
            parts.append(audio[start:end])
            frames = frames[len(group) - len(partial) :]
            state.partial[slot] = group[:0] if is_whole else group
        return np.concatenate(parts)

    def close(self) -> None:
        """Nothing to free that does not go with it."""

    @torch.inference_mode()
    def _decode(
        self, frames: NDArray[Any], state: GroupedState, slot: int, *, is_kept: bool
    ) -> Samples:
        device = state.state.memory.device
        row = upload([slot], device)
        part = state.state.gather(row)
        codes = upload(np.ascontiguousarray(np.asarray(frames).T)[None], device)
        audio = self._decoder.decode(codes, part)
        if is_kept:
            state.state.scatter(row, part)
        samples: Samples = audio[0].cpu().numpy()
        return samples
