"""The codec's decoder on the host, or in float32: exact, row by row, with PyTorch alone."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from antiphon.codec.rows import RowDecoder
from antiphon.engine.transfer import upload
from antiphon.models.qwen3_tts.codec import CodecDecoder
from antiphon.models.qwen3_tts.codec_state import DecoderState
from antiphon.models.qwen3_tts.config import CodecConfig
from antiphon.types import Samples


class CodecBatch(RowDecoder):
    """An `antiphon.codec.protocol.StreamingDecoder`; a frame is its codes, ``[num_quantizers]``.

    Rows are decoded one by one: PyTorch's kernels add in an order that depends on the batch, and a
    stream would differ in its last bit by who its neighbours are.
    """

    def __init__(self, decoder: CodecDecoder, config: CodecConfig) -> None:
        self._decoder = decoder
        self.sample_rate_hz = config.sample_rate_hz
        self.samples_per_frame = config.samples_per_frame

    @torch.inference_mode()
    def open(self, num_slots: int) -> DecoderState:
        return self._decoder.open(num_slots)

    @torch.inference_mode()
    def reset(self, state: DecoderState, slot: int) -> None:
        self._decoder.reset(state, slot)

    @torch.inference_mode()
    def decode_row(self, frames: NDArray[Any], state: DecoderState, slot: int) -> Samples:
        device = state.memory.device
        row = upload([slot], device)
        part = state.gather(row)
        codes = upload(np.ascontiguousarray(np.asarray(frames).T)[None], device)
        is_active = torch.ones(1, dtype=torch.bool, device=device)
        audio = self._decoder.decode(codes, part, is_active)
        state.scatter(row, part)
        samples: Samples = audio[0].cpu().numpy()
        return samples

    def close(self) -> None:
        """Nothing to free that does not go with it."""
