"""Scales of random weights that keep signals alive: nothing explodes, dies, clips or repeats.

Norm weights differ from one, layer scales are large enough to matter, and scores are peaked enough
that the largest of them is clear. So tests that compare two implementations see their differences.
"""

import math
import re

from antiphon.families.kit.layouts import Layout
from antiphon.families.qwen3_tts.config import Qwen3TTSConfig
from antiphon.nn.safetensors_index import Shape
from tests.families.random_files import RandomTensor

# The first match applies. A gain is relative to keeping the variance of random inputs.
_GAINS: tuple[tuple[str, float], ...] = (
    # talker and predictor
    (r"talker\..*(o_proj|down_proj)\.weight", 1.5),
    (r"talker\.text_projection\.linear_fc2\.weight", 1.5),
    (r"talker\.(codec_head|code_predictor\.lm_head\.\d+)\.weight", 3.0),
    # codec decoder: Snake adds power, which the next layer reduces
    (r"decoder\.quantizer\.rvq_rest\.output_proj\.weight", 0.4),
    (r"decoder\.decoder\.\d+\.block\.[234]\.conv[12]\.conv\.weight", 0.6),
    (r"decoder\.decoder\.\d+\.block\.1\.conv\.weight", 0.8),
    (r"decoder\.decoder\.6\.conv\.weight", 0.05),
    # codec encoder and speaker encoder
    (r"encoder\.encoder\.layers\.0\.conv\.weight", 8.0),
    (r"encoder\.encoder\..*\.weight", 1.3),
    (r"speaker_encoder\.fc\.weight", 0.15),
    (r"speaker_encoder\..*\.weight", 1.4),
)
_EMBEDDINGS: tuple[tuple[str, float], ...] = (
    (r"talker\.model\.(text|codec)_embedding\.weight", 1.0),
    (r"decoder\.quantizer\..*\.embedding_sum", 1.0),
)
_NEAR: tuple[tuple[str, float, float], ...] = (  # mean, standard deviation
    (r".*\.initialized", 1.0, 0.0),
    (r".*\.cluster_usage", 1.0, 0.25),
    (r".*\.(scale|gamma)", 0.3, 0.05),
    (r".*\.(alpha|beta)", 0.0, 0.2),
    (r"talker\..*\.[qk]_norm\.weight", 1.5, 0.1),
    (r".*norm\.weight", 1.0, 0.1),
    (r".*\.bias", 0.0, 0.05),
)
# For the row that scores end of speech: the median over seeds is an end after 40 frames.
_EOS_GAIN = 2.0
# The sum of those of a frame has the same scale, however many they are.
_SUMMED = re.compile(r"talker\.code_predictor\.model\.codec_embedding\.\d+\.weight")
_SUMMED_STD, _SUMMED_OF = 0.35, 15
_CODEBOOK = re.compile(r"encoder\.quantizer\.(\w+?)_residual.*\.layers\.(\d+)\.codebook\.embed_sum")


def recipe(layout: Layout, config: Qwen3TTSConfig) -> dict[str, RandomTensor]:
    tensors = {name: _tensor(name, shape) for name, shape in layout.items()}
    summed_std = _SUMMED_STD * math.sqrt(_SUMMED_OF / (config.talker.num_groups - 1))
    for name in filter(_SUMMED.fullmatch, tensors):
        tensors[name] = RandomTensor(layout[name], summed_std)
    head = "talker.codec_head.weight"
    if head in tensors:
        plain = tensors[head]
        gains = {config.talker.tokens.eos: _EOS_GAIN}
        tensors[head] = RandomTensor(plain.shape, plain.std, row_gains=gains)
    return tensors


def _tensor(name: str, shape: Shape) -> RandomTensor:
    for pattern, mean, std in _NEAR:
        if re.fullmatch(pattern, name):
            return RandomTensor(shape, std, mean)
    for pattern, std in _EMBEDDINGS:
        if re.fullmatch(pattern, name):
            return RandomTensor(shape, std)
    codebook = _CODEBOOK.fullmatch(name)
    if codebook:
        # Each quantizer gets the residual of the one before it.
        level = int(codebook[2]) + (codebook[1] == "acoustic")
        return RandomTensor(shape, 0.4 * 0.87**level)
    return RandomTensor(shape, _gain(name) / math.sqrt(_fan_in(name, shape)))


def _gain(name: str) -> float:
    return next((gain for pattern, gain in _GAINS if re.fullmatch(pattern, name)), 1.0)


def _fan_in(name: str, shape: Shape) -> int:
    """Return the number of products summed for one output value."""
    if re.fullmatch(r"decoder\.upsample\.\d+\.0\.conv\.weight", name):
        return shape[0]  # transposed, kernel as wide as its stride
    if re.fullmatch(r"decoder\.decoder\.\d+\.block\.1\.conv\.weight", name):
        return 2 * shape[0]  # transposed, kernel twice as wide as its stride
    return math.prod(shape[1:])
