"""Access to the parts of a checkpoint, each for the module that is built from it.

Every tensor of a part must be read. Tensors of the official modules that are not needed are
listed: input projections for a decoder, output projections for an encoder.
"""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Unpack

from antiphon.families.qwen3_tts.checkpoint import codec_layout, main_layout
from antiphon.families.qwen3_tts.config import CODEC_DIRECTORY, Qwen3TTSConfig
from antiphon.nn.layers import Weights
from antiphon.nn.weights import WeightOptions, open_weights

_UNUSED_BY_DECODER = r"decoder\.quantizer\.\w+\.input_proj\.weight"
_UNUSED_BY_ENCODER = r"encoder\.quantizer\.\w+\.output_proj\.weight|.*\.initialized"


def language_model_weights(
    path: Path, config: Qwen3TTSConfig, **how: Unpack[WeightOptions]
) -> AbstractContextManager[Weights]:
    """Open ``talker.*``, predictor included.

    Args:
        path: directory of the checkpoint.
        config: configuration of that checkpoint.
        how: further arguments of `open_weights`.

    Raises:
        ModelLoadError: on entering, the files do not match the configuration; on leaving, a
            tensor was not read.
    """
    return open_weights(path, main_layout(config), part="talker.", **how)


def speaker_encoder_weights(
    path: Path, config: Qwen3TTSConfig, **how: Unpack[WeightOptions]
) -> AbstractContextManager[Weights]:
    """Open ``speaker_encoder.*`` of a base checkpoint, like `language_model_weights`."""
    return open_weights(path, main_layout(config), part="speaker_encoder.", **how)


def codec_decoder_weights(
    path: Path, config: Qwen3TTSConfig, **how: Unpack[WeightOptions]
) -> AbstractContextManager[Weights]:
    """Open ``decoder.*`` of the codec, like `language_model_weights`."""
    return _codec_weights(path, config, "decoder.", _UNUSED_BY_DECODER, **how)


def codec_encoder_weights(
    path: Path, config: Qwen3TTSConfig, **how: Unpack[WeightOptions]
) -> AbstractContextManager[Weights]:
    """Open ``encoder.*`` of the codec and the quantizers in use, like `language_model_weights`."""
    encoder = config.codec.encoder
    num_acoustic = config.codec.num_quantizers - encoder.num_semantic_quantizers
    spare = range(num_acoustic, encoder.num_quantizers - encoder.num_semantic_quantizers)
    levels = "|".join(map(str, spare)) or "(?!)"
    unused = rf"{_UNUSED_BY_ENCODER}|encoder\.quantizer\.acoustic.*\.layers\.({levels})\..*"
    return _codec_weights(path, config, "encoder.", unused, **how)


def _codec_weights(
    path: Path, config: Qwen3TTSConfig, part: str, unused: str, **how: Unpack[WeightOptions]
) -> AbstractContextManager[Weights]:
    layout, path = codec_layout(config), path / CODEC_DIRECTORY
    return open_weights(path, layout, part=part, unused=unused, **how)
