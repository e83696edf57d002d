"""The stage that encodes recordings of voices into codes."""

from collections.abc import Sequence

import torch

from antiphon.contracts.family import LoadContext
from antiphon.contracts.prompt import EncodingBatch
from antiphon.contracts.types import Latents, Samples
from antiphon.errors import InvalidRequestError
from antiphon.families.fish_speech.codec_weights import part_of, read_codec
from antiphon.families.fish_speech.config import SAMPLE_RATE_HZ, load_config
from antiphon.families.fish_speech.encoder import ENCODER_PARTS, DacEncoder
from antiphon.families.fish_speech.options import MAX_REFERENCE_S
from antiphon.families.kit.recordings import warm_up_samples
from antiphon.nn.device import resolve_device
from antiphon.nn.padded_batches import PaddedBatches, PaddedPass

_CODES = "codes"


class CodecVoiceEncoder:
    """The codec's encoder, a `BatchEncoder`; used by one thread at a time.

    It computes in float32: roundings would change codes. On a GPU recordings are encoded in padded
    batches.
    """

    def __init__(self, context: LoadContext, *, pads: bool | None = None) -> None:
        """Load and warm the encoder.

        Args:
            context: what to load, and where.
            pads: whether recordings are encoded in padded batches; default: on a GPU.

        Raises:
            ModelLoadError: it cannot be loaded.
        """
        config = load_config(context.path)
        assert context.path is not None, "the family needs a checkpoint"
        sizes, tensors = read_codec(context.path, config)
        device = resolve_device(context.device, context.memory_fraction)
        like = torch.empty(0, dtype=torch.float32, device=device)
        self._encoder = DacEncoder.of(part_of(tensors, *ENCODER_PARTS, like=like), sizes)
        encoder = self._encoder
        of_rows = PaddedPass(lambda samples, _: encoder.encode_rows(samples), encoder.encode)
        self._batches = PaddedBatches(
            {_CODES: of_rows},
            device,
            sample_rate_hz=SAMPLE_RATE_HZ,
            samples_per_frame=encoder.frame_samples,
            captures=False,
            pads=pads,
        )
        self.encode(warm_up_samples(SAMPLE_RATE_HZ))

    def batch_of(self, data: Samples) -> EncodingBatch:
        """Return which others a recording is encoded with: those of about its length.

        Raises:
            InvalidRequestError: there are no samples, or more than a prompt has room for.
        """
        if len(data) > MAX_REFERENCE_S * SAMPLE_RATE_HZ:
            raise InvalidRequestError(
                f"Invalid 'ref_audio': at most {MAX_REFERENCE_S} seconds are allowed.",
                param="ref_audio",
            )
        self._encoder.check(len(data))
        length = self._batches.length_of(len(data))
        return EncodingBatch(length, self._batches.num_rows(length))

    def encode_batch(self, batch: Sequence[Samples]) -> list[Latents]:
        """Return codes, int64 ``[num_frames, num_codebooks]``, of mono samples at 44.1 kHz."""
        length = self._batches.length_of(len(batch[0]))
        made = self._batches.encode([_CODES], batch, length)
        frame = self._encoder.frame_samples
        return [
            Latents(row[_CODES][: -(-len(samples) // frame)])
            for samples, row in zip(batch, made, strict=True)
        ]

    def encode(self, samples: Samples) -> Latents:
        """Encode one recording; see `encode_batch`.

        Raises:
            InvalidRequestError: there are no samples, or more than a prompt has room for.
        """
        self.batch_of(samples)
        return self.encode_batch([samples])[0]

    def close(self) -> None:
        """Nothing to free that does not go with it."""
