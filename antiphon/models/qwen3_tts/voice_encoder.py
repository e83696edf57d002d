"""The stage that encodes recordings of voices: into a speaker vector, and into codes."""

from collections.abc import Generator
from threading import Lock

import torch

from antiphon.errors import InvalidRequestError
from antiphon.models.base import Prompt
from antiphon.models.qwen3_tts.config_reader import load_config
from antiphon.models.qwen3_tts.encoder import CodecEncoder
from antiphon.models.qwen3_tts.recording import WANTED, Recording, noise
from antiphon.models.qwen3_tts.stopping import MAX_POSITIONS, MIN_BUDGET_FRAMES
from antiphon.models.qwen3_tts.weights import codec_encoder_weights, speaker_encoder_weights
from antiphon.models.spec import LoadContext
from antiphon.nn.device import resolve_device
from antiphon.nn.ecapa import EcapaEncoder
from antiphon.nn.precision import exact_float32
from antiphon.types import Latents

_WARM_UP_S = (1.0, 3.0, 5.0, 10.0, 20.0)  # a GPU has other kernels for other lengths


class VoiceEncoder:
    """The encoders of a base checkpoint, a `StageGenerator`; safe for threads, one at a time.

    Both compute in float32, whatever the talker does: roundings would change codes. On a GPU they
    are called within `exact_float32`, so that a voice's codes are the same there.
    """

    def __init__(self, context: LoadContext) -> None:
        """Load and warm both encoders; raises ModelLoadError if they cannot be loaded."""
        assert context.path is not None, "the family needs a checkpoint"
        config = load_config(context.path)
        assert config.speaker_encoder is not None, "only base checkpoints encode voices"
        self._device = resolve_device(context.device, context.memory_fraction)
        self._lock = Lock()
        self._rate_hz = config.codec.sample_rate_hz
        self._max_samples = (MAX_POSITIONS - MIN_BUDGET_FRAMES) * config.codec.samples_per_frame
        like = torch.empty(0, dtype=torch.float32, device=self._device)
        with speaker_encoder_weights(context.path, config, like=like) as weights:
            self._speaker = EcapaEncoder.of(weights, "speaker_encoder", config.speaker_encoder)
        with codec_encoder_weights(context.path, config, like=like) as weights:
            self._codec = CodecEncoder.of(
                weights, config.codec.encoder, config.codec.num_quantizers
            )
        for duration_s in _WARM_UP_S if self._device.type == "cuda" else _WARM_UP_S[:1]:
            for wanted in WANTED:
                self.encode(noise(duration_s, wanted))

    def generate(self, prompt: Prompt) -> Generator[Latents, None, None]:
        """Yield what the prompt's `Recording` wants.

        Raises:
            InvalidRequestError: the recording is too short.
        """
        yield self.encode(prompt.data)

    @torch.inference_mode()
    def encode(self, recording: Recording) -> Latents:
        """Return the speaker vector, float32 ``[D]``, or codes, int64 ``[num_frames, Q]``.

        Raises:
            InvalidRequestError: the recording is too short, or longer than any prompt could be.
        """
        if len(recording.samples) > self._max_samples:
            raise InvalidRequestError(
                f"Invalid 'ref_audio': at most {self._max_samples / self._rate_hz:.0f} seconds"
                " are allowed.",
                param="ref_audio",
            )
        with self._lock, exact_float32():
            samples = torch.tensor(recording.samples, device=self._device)
            if recording.wanted == "speaker":
                return Latents(self._speaker.embed(samples).cpu().numpy())
            return Latents(self._codec.encode(samples).cpu().numpy())

    def close(self) -> None:
        """Nothing to free that does not go with it."""
