"""The stage that encodes recordings of voices: into a speaker vector, and into codes."""

from collections.abc import Sequence

import torch

from antiphon.contracts.family import LoadContext
from antiphon.contracts.prompt import EncodingBatch
from antiphon.contracts.types import Latents
from antiphon.errors import InvalidRequestError
from antiphon.families.qwen3_tts.config_reader import load_config
from antiphon.families.qwen3_tts.encoder import CodecEncoder
from antiphon.families.qwen3_tts.recording import Recording, noise
from antiphon.families.qwen3_tts.stopping import MAX_POSITIONS, RESERVED_FRAMES
from antiphon.families.qwen3_tts.voice_passes import voice_passes
from antiphon.families.qwen3_tts.weights import codec_encoder_weights, speaker_encoder_weights
from antiphon.nn.device import resolve_device
from antiphon.nn.ecapa import EcapaEncoder
from antiphon.nn.parallel_rows import ParallelRows

_WARM_UP_S = 1.0


class VoiceEncoder:
    """The encoders of a base checkpoint, a `BatchEncoder`; used by one thread at a time.

    Both compute in float32, whatever the talker does: roundings would change codes. So a voice's
    codes are the same on a GPU, where recordings are padded and encoded side by side.
    """

    def __init__(self, context: LoadContext, *, pads: bool | None = None) -> None:
        """Load and warm both encoders.

        Args:
            context: what to load, and where.
            pads: whether recordings are padded; default: on a GPU.

        Raises:
            ModelLoadError: they cannot be loaded.
        """
        assert context.path is not None, "the family needs a checkpoint"
        config = load_config(context.path)
        assert config.speaker_encoder is not None, "only base checkpoints encode voices"
        device = resolve_device(context.device, context.memory_fraction)
        self._rate_hz = config.codec.sample_rate_hz
        self._max_samples = (MAX_POSITIONS - RESERVED_FRAMES) * config.codec.samples_per_frame
        like = torch.empty(0, dtype=torch.float32, device=device)
        with speaker_encoder_weights(context.path, config, like=like) as weights:
            self._speaker = EcapaEncoder.of(weights, "speaker_encoder", config.speaker_encoder)
        with codec_encoder_weights(context.path, config, like=like) as weights:
            self._codec = CodecEncoder.of(
                weights, config.codec.encoder, config.codec.num_quantizers
            )
        self._frame = config.codec.samples_per_frame
        self._rows = ParallelRows(
            voice_passes(self._speaker, self._codec),
            device,
            sample_rate_hz=self._rate_hz,
            samples_per_frame=self._frame,
            pads=pads,
        )
        self.encode(noise(_WARM_UP_S))

    def batch_of(self, data: Recording) -> EncodingBatch:
        """Return which others a recording is encoded with: those that are as short as it is.

        Raises:
            InvalidRequestError: the recording is too short, or longer than any prompt could be.
        """
        num_samples = len(data.samples)
        if num_samples > self._max_samples:
            raise InvalidRequestError(
                f"Invalid 'ref_audio': at most {self._max_samples / self._rate_hz:.0f} seconds"
                " are allowed.",
                param="ref_audio",
            )
        if "speaker" in data.wanted:
            self._speaker.check(num_samples)
        self._codec.check(num_samples)
        num_rows = self._rows.num_rows(num_samples)
        return EncodingBatch((data.wanted, num_rows), num_rows)

    def encode_batch(self, batch: Sequence[Recording]) -> list[Latents]:
        """Return what is wanted of each recording of a batch, by name; see `batch_of`.

        The speaker vector is float32 ``[D]``, codes are int64 ``[num_frames, Q]``.
        """
        made = self._rows.encode(batch[0].wanted, [each.samples for each in batch])
        for recording, parts in zip(batch, made, strict=True):
            if "codes" in parts:
                parts["codes"] = parts["codes"][: -(-len(recording.samples) // self._frame)]
        return [Latents(parts) for parts in made]

    def encode(self, recording: Recording) -> Latents:
        """Encode one recording; see `encode_batch`.

        Raises:
            InvalidRequestError: the recording is too short, or longer than any prompt could be.
        """
        self.batch_of(recording)
        return self.encode_batch([recording])[0]

    def close(self) -> None:
        """Nothing to free that does not go with it."""
