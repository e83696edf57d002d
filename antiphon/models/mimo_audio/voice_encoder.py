"""The stage that encodes recordings of voices into codes."""

from collections.abc import Generator
from threading import Lock

import numpy as np
import torch

from antiphon.errors import InvalidRequestError
from antiphon.models.base import Prompt
from antiphon.models.mimo_audio.audio_encoder import AudioEncoder
from antiphon.models.mimo_audio.checkpoint_schema import (
    UNUSED_IN_TOKENIZER,
    spare_codebooks,
    tokenizer_layout_of,
)
from antiphon.models.mimo_audio.config_reader import load_config, load_tokenizer_config
from antiphon.models.mimo_audio.recording import MAX_RECORDING_S, MIN_RECORDING_S
from antiphon.models.mimo_audio.tokenizer_path import tokenizer_path
from antiphon.models.recordings import warm_up_samples
from antiphon.models.spec import LoadContext
from antiphon.nn.device import resolve_device
from antiphon.nn.precision import exact_float32
from antiphon.nn.weights import open_weights
from antiphon.types import Latents, Samples


class CodeVoiceEncoder:
    """The tokenizer's encoder, a `StageGenerator`; safe for threads, one at a time."""

    def __init__(self, context: LoadContext) -> None:
        """Load and warm the encoder; raises ModelLoadError if it cannot be loaded."""
        assert context.path is not None, "the family needs a checkpoint"
        path = tokenizer_path(context.path)
        config = load_tokenizer_config(path, load_config(context.path))
        self._rate_hz = config.sample_rate_hz
        self._device = resolve_device(context.device, context.memory_fraction)
        self._lock = Lock()
        opened = open_weights(
            path,
            tokenizer_layout_of(config),
            like=torch.empty(0, dtype=torch.float32, device=self._device),
            part="encoder.",
            unused=f"{UNUSED_IN_TOKENIZER}|{spare_codebooks(config)}",
        )
        with torch.inference_mode(), opened as weights:
            self._encoder = AudioEncoder.of(weights, config)
        self.encode(warm_up_samples(self._rate_hz))

    def generate(self, prompt: Prompt) -> Generator[Latents, None, None]:
        """Yield the codes of the prompt's samples.

        Raises:
            InvalidRequestError: there are too few of them, or too many.
        """
        yield self.encode(prompt.data)

    @torch.inference_mode()
    def encode(self, samples: Samples) -> Latents:
        """Return codes, int64 ``[num_frames, num_codes]``, of samples, float32 ``[num_samples]``.

        Raises:
            InvalidRequestError: there are too few of them, or too many.
        """
        if not MIN_RECORDING_S <= len(samples) / self._rate_hz <= MAX_RECORDING_S:
            raise InvalidRequestError(
                f"Invalid 'ref_audio': it must have {MIN_RECORDING_S:g} to {MAX_RECORDING_S}"
                " seconds.",
                param="ref_audio",
            )
        with self._lock, exact_float32():
            given = torch.from_numpy(np.array(samples, np.float32)).to(self._device)
            return Latents(self._encoder.encode(given).cpu().numpy())

    def close(self) -> None:
        """Nothing to free that does not go with it."""
