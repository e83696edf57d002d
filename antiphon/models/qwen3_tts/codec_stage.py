"""The codec of a checkpoint, loaded for the pipeline's decoder stage."""

import torch

from antiphon.engine.device import resolve_device
from antiphon.models.qwen3_tts.codec import CodecDecoder
from antiphon.models.qwen3_tts.codec_batch import CodecBatch
from antiphon.models.qwen3_tts.config_reader import load_config
from antiphon.models.qwen3_tts.weights import codec_decoder_weights
from antiphon.models.spec import LoadContext


class Qwen3TTSCodec(CodecBatch):
    """Turns codes into 24 kHz audio, in float32 (TF32 on a GPU) whatever the talker computes in."""

    def __init__(self, context: LoadContext) -> None:
        """Load the decoder.

        Raises:
            ModelLoadError: the checkpoint cannot be served.
        """
        assert context.path is not None, "the family needs a checkpoint"
        config = load_config(context.path)
        like = torch.empty(0, dtype=torch.float32, device=resolve_device(context.device))
        progress = context.progress_of("codec")
        with (
            torch.inference_mode(),
            codec_decoder_weights(context.path, config, like=like, progress=progress) as weights,
        ):
            decoder = CodecDecoder.of(weights, config.codec.decoder)
        super().__init__(decoder, config.codec, progress=context.progress_of("codec graphs"))
