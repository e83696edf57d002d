"""Encoder stage: the speaker encoder, and the codec's encoder, which is that of Mimi.

The checkpoint's configuration names an attention window, but the published code applies none here:
every position attends to all before it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from antiphon.contracts.family import LoadContext
from antiphon.families.kit.cloned_voices import CODES, SPEAKER, RecordingLimits
from antiphon.families.kit.loading import weights_for
from antiphon.families.kit.voice_encoder import ClonedVoiceEncoder
from antiphon.families.qwen3_tts.checkpoint import codec_encoder_part, speaker_encoder_part
from antiphon.families.qwen3_tts.config import DOWNSAMPLE_STRIDE, CodecEncoderConfig
from antiphon.families.qwen3_tts.config_reader import load_config
from antiphon.families.qwen3_tts.stopping import MAX_POSITIONS, RESERVED_FRAMES
from antiphon.nn.codec_layers.conv import LayerBuilder, PaddedConv
from antiphon.nn.codec_layers.quantizer import ResidualQuantizer, codebook
from antiphon.nn.codec_layers.seanet import SeanetEncoder
from antiphon.nn.codec_layers.state import EmptyHistory
from antiphon.nn.codec_layers.transformer import CodecTransformer
from antiphon.nn.ecapa import EcapaEncoder
from antiphon.nn.layers import Weights
from antiphon.nn.mel import HOP_SAMPLES, log_mel_rows, mel_filters
from antiphon.nn.padded_batches import PaddedPass
from antiphon.nn.parallel_rows import ParallelRows
from antiphon.nn.row_lengths import RowLengths
from antiphon.nn.weights import open_weights


@dataclass(frozen=True, slots=True)
class CodecEncoder:
    """Encoder of whole recordings, one at a time or several in a padded batch."""

    waves: SeanetEncoder
    transformer: CodecTransformer
    downsample: PaddedConv
    quantizers: tuple[ResidualQuantizer, ResidualQuantizer]  # semantic, acoustic; of one input

    @classmethod
    def of(
        cls, weights: Weights, config: CodecEncoderConfig, num_quantizers: int
    ) -> "CodecEncoder":
        """Read the encoder from the codec's tensors.

        Args:
            weights: float32 tensors by their names in the checkpoint; rounding would change codes.
            num_quantizers: codes per frame, the first of those in the checkpoint.
        """
        num_semantic = config.num_semantic_quantizers
        return cls(
            waves=SeanetEncoder.of(
                weights,
                "encoder.encoder",
                strides=config.ratios[::-1],
                num_residual_layers=config.num_residual_layers,
                dilation_base=config.dilation_growth_rate,
            ),
            transformer=CodecTransformer.of(
                LayerBuilder(weights), "encoder.encoder_transformer", config.transformer
            ),
            downsample=PaddedConv.of(
                weights, "encoder.downsample.conv", stride=DOWNSAMPLE_STRIDE, pad_mode="replicate"
            ),
            quantizers=(
                _quantizer(weights, "semantic", num_semantic),
                _quantizer(weights, "acoustic", num_quantizers - num_semantic),
            ),
        )

    @torch.no_grad()
    def encode(self, samples: Tensor) -> Tensor:
        """Encode a recording, float32 ``[num_samples]``, to int64 ``[frames, num_quantizers]``."""
        return self._codes(samples[None, None], None)[0]

    @torch.no_grad()
    def encode_rows(self, samples: Tensor, lengths: Tensor) -> Tensor:
        """Encode several recordings, each as if it were alone.

        On a CPU, a row's codes are those of `encode`, except if two entries of a codebook are
        equally near up to rounding. They do not depend on other rows, nor on values after its own
        samples.

        Args:
            samples: float32 ``[B, t]``; ``t`` is a multiple of a frame, and padding is finite.
            lengths: rows' lengths in samples, int64 ``[B]``, each from 1 to ``t``.

        Returns:
            int64 ``[B, t / samples_per_frame, num_quantizers]``; frames after a row's own
            ``ceil(length / samples_per_frame)`` are undefined.
        """
        return self._codes(samples[:, None], RowLengths(lengths))

    def _codes(self, samples: Tensor, lengths: RowLengths | None) -> Tensor:
        steps = self.waves(samples, lengths).transpose(1, 2)
        history = EmptyHistory(steps.shape[1], None, steps.device)
        step_lengths = None if lengths is None else lengths.downsampled(self.waves.stride)
        frames = self.downsample(self.transformer(steps, history).transpose(1, 2), step_lengths)
        codes = [code for quantizer in self.quantizers for code in quantizer(frames)]
        return torch.stack(codes, dim=2)


def _quantizer(weights: Weights, kind: str, num_codebooks: int) -> ResidualQuantizer:
    name = f"encoder.quantizer.{kind}_residual_vector_quantizer"
    names = (f"{name}.layers.{index}.codebook" for index in range(num_codebooks))
    tables = tuple(codebook(weights, each, "embed_sum") for each in names)
    return ResidualQuantizer(weights[f"{name}.input_proj.weight"], tables)


def load_voice_encoder(context: LoadContext, *, pads: bool | None = None) -> ClonedVoiceEncoder:
    """Load the encoders of a base checkpoint; raises ModelLoadError.

    Args:
        pads: whether recordings are padded; ``None``: on a GPU.
    """
    config = load_config(context.checkpoint)
    encoder = config.codec.encoder
    assert config.speaker_encoder is not None, "only base checkpoints encode voices"
    assert encoder is not None
    path, how = context.checkpoint, weights_for(context, dtype="float32")
    with open_weights(speaker_encoder_part(path, config), **how) as weights:
        speaker = EcapaEncoder.of(weights, "speaker_encoder", config.speaker_encoder)
    with open_weights(codec_encoder_part(path, config), **how) as weights:
        codec = CodecEncoder.of(weights, encoder, config.codec.num_quantizers)
    rate_hz, frame = config.codec.sample_rate_hz, config.codec.samples_per_frame
    batches = ParallelRows(
        _passes(speaker, codec, frame),
        how["like"].device,
        sample_rate_hz=rate_hz,
        samples_per_frame=frame,
        pads=pads,
    )
    max_s = (MAX_POSITIONS - RESERVED_FRAMES) * frame / rate_hz
    limits = RecordingLimits(rate_hz, max_s, speaker.min_samples / rate_hz)
    return ClonedVoiceEncoder(batches, limits, [SPEAKER, CODES])


def _passes(speaker: EcapaEncoder, codec: CodecEncoder, frame: int) -> Mapping[str, PaddedPass]:
    """Return the passes of both encoders.

    Speaker vectors are float32 ``[B, D]``; codes are int64 ``[B, num_frames, Q]``. Spectrograms are
    computed outside of graphs: a few kernels, whose plans cuFFT caches itself.
    """
    config, device = speaker.config, speaker.project.weight.device
    filters = torch.from_numpy(mel_filters(config.mel_dim, config.sample_rate_hz)).to(device)
    codes = PaddedPass(
        codec.encode_rows, codec.encode, num_frames=lambda num_samples: -(-num_samples // frame)
    )
    vectors = PaddedPass(
        lambda mels, lengths: speaker.pooled(mels, RowLengths(lengths // HOP_SAMPLES))[:, :, 0],
        speaker.embed,
        lambda samples, lengths: log_mel_rows(samples, RowLengths(lengths), filters),
    )
    return {SPEAKER: vectors, CODES: codes}
