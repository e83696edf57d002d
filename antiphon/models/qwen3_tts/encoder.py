"""The codec's encoder: reference audio to codes, the encoder half of Mimi.

The checkpoint's configuration names an attention window, but the code that the models were
published with applies none here: every step attends to all steps before it, and so do we.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from antiphon.errors import InvalidRequestError
from antiphon.models.qwen3_tts.config import CodecEncoderConfig
from antiphon.models.qwen3_tts.encoder_layers import PaddedConv, WaveEncoder
from antiphon.models.qwen3_tts.encoder_quantizer import SplitQuantizer
from antiphon.models.qwen3_tts.encoder_transformer import EncoderTransformer
from antiphon.nn.layers import Weights


@dataclass(frozen=True, slots=True)
class CodecEncoder:
    """Encodes recordings, one whole recording at a time."""

    waves: WaveEncoder
    transformer: EncoderTransformer
    downsample: PaddedConv
    quantizer: SplitQuantizer

    @classmethod
    def of(
        cls, weights: Weights, config: CodecEncoderConfig, num_quantizers: int
    ) -> "CodecEncoder":
        """Take the encoder out of the codec's tensors.

        Args:
            weights: under their names in the checkpoint; in float32, or roundings change codes.
            config: of the encoder.
            num_quantizers: codes per frame, the first of those that the checkpoint can make.
        """
        num_semantic = config.num_semantic_quantizers
        return cls(
            waves=WaveEncoder.of(weights, "encoder.encoder", config),
            transformer=EncoderTransformer.of(
                weights, "encoder.encoder_transformer", config.transformer
            ),
            downsample=PaddedConv.of(
                weights,
                "encoder.downsample",
                stride=config.downsample_stride,
                pad_mode="replicate",
            ),
            quantizer=SplitQuantizer.of(
                weights, "encoder.quantizer", num_semantic, num_quantizers - num_semantic
            ),
        )

    @torch.no_grad()
    def encode(self, samples: Tensor) -> Tensor:
        """Encode one recording.

        Args:
            samples: float32 ``[num_samples]``, mono at the codec's rate, on the encoder's device.

        Returns:
            int64 ``[ceil(num_samples / samples_per_frame), num_quantizers]``.

        Raises:
            InvalidRequestError: there are no samples.
        """
        if not len(samples):
            raise InvalidRequestError("The reference audio is empty.")
        steps = self.waves(samples[None, None])
        steps = self.transformer(steps.transpose(1, 2)).transpose(1, 2)
        return self.quantizer(self.downsample(steps))
