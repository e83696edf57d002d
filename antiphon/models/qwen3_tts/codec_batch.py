"""The codec's decoder as a batched runner drives it: arrays in, samples out, on any device."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from antiphon.models.qwen3_tts.codec import CodecDecoder
from antiphon.models.qwen3_tts.codec_state import DecoderState
from antiphon.models.qwen3_tts.config import CodecConfig
from antiphon.types import Samples


class CodecBatch:
    """An `antiphon.codec.protocol.StreamingDecoder`; a frame is its codes, ``[num_quantizers]``."""

    def __init__(self, decoder: CodecDecoder, config: CodecConfig) -> None:
        self._decoder = decoder
        self._config = config

    @property
    def sample_rate_hz(self) -> int:
        return self._config.sample_rate_hz

    @property
    def samples_per_frame(self) -> int:
        return self._config.samples_per_frame

    def open(self, num_slots: int) -> DecoderState:
        return self._decoder.open(num_slots)

    def reset(self, state: DecoderState, slot: int) -> None:
        self._decoder.reset(state, slot)

    def decode(
        self, frames: NDArray[np.integer[Any]], state: DecoderState, active: NDArray[np.bool_]
    ) -> Samples:
        """Decode ``[num_slots, n, num_quantizers]``; inactive rows cost next to nothing.

        On a CPU rows are decoded one by one: kernels there add in an order that depends on the
        batch, and a stream would differ in its last bit by who its neighbours are.
        """
        num_slots, num_frames, _ = frames.shape
        samples = np.zeros((num_slots, num_frames * self.samples_per_frame), np.float32)
        slots = np.flatnonzero(active)
        is_exact = state.memory.device.type == "cpu"
        for rows in np.split(slots, len(slots)) if is_exact else [slots]:
            samples[rows] = self._decode_rows(frames[rows], state, rows)
        return samples

    @torch.inference_mode()
    def _decode_rows(
        self, frames: NDArray[np.integer[Any]], state: DecoderState, rows: NDArray[np.intp]
    ) -> Samples:
        device = state.memory.device
        codes = np.ascontiguousarray(frames.transpose(0, 2, 1), dtype=np.int64)
        index = torch.from_numpy(rows).to(device)
        part = state.gather(index)
        everyone = torch.ones(len(rows), dtype=torch.bool, device=device)
        audio = self._decoder.decode(torch.from_numpy(codes).to(device), part, everyone)
        state.scatter(index, part)
        samples: Samples = audio.cpu().numpy()
        return samples

    def close(self) -> None:
        """Nothing to free that does not go with it."""
