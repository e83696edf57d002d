"""The stage that encodes recordings of voices into codes."""

from collections.abc import Generator
from threading import Lock

import numpy as np
import torch

from antiphon.errors import InvalidRequestError
from antiphon.models.base import Prompt
from antiphon.models.fish_speech.codec_weights import part_of, read_codec
from antiphon.models.fish_speech.config import SAMPLE_RATE_HZ, load_config
from antiphon.models.fish_speech.encoder import ENCODER_PARTS, DacEncoder
from antiphon.models.fish_speech.options import MAX_REFERENCE_S
from antiphon.models.spec import LoadContext
from antiphon.nn.device import resolve_device
from antiphon.nn.precision import exact_float32
from antiphon.types import Latents, Samples

_WARM_UP_S = 1.0


class CodecVoiceEncoder:
    """The codec's encoder, a `StageGenerator`; safe for threads, one recording at a time.

    It computes in float32: roundings would change codes.
    """

    def __init__(self, context: LoadContext) -> None:
        """Load and warm the encoder; raises ModelLoadError if it cannot be loaded."""
        config = load_config(context.path)
        assert context.path is not None, "the family needs a checkpoint"
        sizes, tensors = read_codec(context.path, config)
        self._device = resolve_device(context.device, context.memory_fraction)
        self._lock = Lock()
        like = torch.empty(0, dtype=torch.float32, device=self._device)
        self._encoder = DacEncoder.of(part_of(tensors, *ENCODER_PARTS, like=like), sizes)
        self.encode(noise())

    def generate(self, prompt: Prompt) -> Generator[Latents, None, None]:
        """Yield the codes of the prompt's recording.

        Raises:
            InvalidRequestError: the recording is too long.
        """
        yield self.encode(prompt.data)

    @torch.inference_mode()
    def encode(self, samples: Samples) -> Latents:
        """Return codes, int64 ``[num_frames, num_codebooks]``, of mono samples at 44.1 kHz.

        Raises:
            InvalidRequestError: there are no samples, or more than a prompt has room for.
        """
        if len(samples) > MAX_REFERENCE_S * SAMPLE_RATE_HZ:
            raise InvalidRequestError(
                f"Invalid 'ref_audio': at most {MAX_REFERENCE_S} seconds are allowed.",
                param="ref_audio",
            )
        with self._lock, exact_float32():
            codes = self._encoder.encode(torch.tensor(samples, device=self._device))
            return Latents(codes.cpu().numpy())

    def close(self) -> None:
        """Nothing to free that does not go with it."""


def noise() -> Samples:
    """Return what the encoder is warmed with; the same every time."""
    size = round(_WARM_UP_S * SAMPLE_RATE_HZ)
    return np.random.default_rng(0).normal(0, 0.1, size).astype(np.float32)
