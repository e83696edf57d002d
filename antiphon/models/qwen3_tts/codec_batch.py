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
        """Decode ``[num_slots, n, num_quantizers]``; inactive rows cost next to nothing."""
        slots = np.flatnonzero(active)
        codes = np.ascontiguousarray(frames[slots].transpose(0, 2, 1), dtype=np.int64)
        device = state.memory.device
        rows = torch.from_numpy(slots).to(device)
        part = state.gather(rows)
        everyone = torch.ones(len(slots), dtype=torch.bool, device=device)
        audio = self._decoder.decode(torch.from_numpy(codes).to(device), part, everyone)
        state.scatter(rows, part)
        samples = np.zeros((len(frames), audio.shape[1]), np.float32)
        samples[slots] = audio.cpu().numpy()
        return samples

    def close(self) -> None:
        """Nothing to free that does not go with it."""
