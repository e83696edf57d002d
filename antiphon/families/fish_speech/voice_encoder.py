"""Encoder stage: codes of reference audio."""

from antiphon.contracts.family import LoadContext
from antiphon.families.fish_speech.codec_weights import part_of, read_codec
from antiphon.families.fish_speech.config import SAMPLE_RATE_HZ, load_config
from antiphon.families.fish_speech.encoder import ENCODER_PARTS, DacEncoder
from antiphon.families.fish_speech.options import MAX_REFERENCE_S
from antiphon.families.kit.cloned_voices import CODES, RecordingLimits
from antiphon.families.kit.loading import like_of
from antiphon.families.kit.voice_encoder import ClonedVoiceEncoder
from antiphon.nn.padded_batches import PaddedBatches, PaddedPass


def load_voice_encoder(context: LoadContext, *, pads: bool | None = None) -> ClonedVoiceEncoder:
    """Load the codec's encoder, whose codes are int64 ``[num_frames, num_codebooks]``.

    Args:
        context: checkpoint, device and settings of the stage.
        pads: whether recordings are encoded in padded batches; ``None``: only on a GPU.

    Raises:
        ModelLoadError: the codec cannot be loaded.
    """
    config = load_config(context.checkpoint)
    sizes, tensors = read_codec(context.checkpoint, config)
    like = like_of(context, "float32")
    encoder = DacEncoder.of(part_of(tensors, *ENCODER_PARTS, like=like), sizes)
    frame = encoder.frame_samples
    codes = PaddedPass(
        lambda samples, _: encoder.encode_rows(samples),
        encoder.encode,
        num_frames=lambda num_samples: -(-num_samples // frame),
    )
    batches = PaddedBatches(
        {CODES: codes},
        like.device,
        sample_rate_hz=SAMPLE_RATE_HZ,
        samples_per_frame=frame,
        captures=False,
        pads=pads,
    )
    return ClonedVoiceEncoder(batches, RecordingLimits(SAMPLE_RATE_HZ, MAX_REFERENCE_S), [CODES])
