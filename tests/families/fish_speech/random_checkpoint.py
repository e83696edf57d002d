"""Writer of checkpoints with random weights in the official layouts."""

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from torch import Tensor

from antiphon.contracts.config_file import ConfigSection
from antiphon.families.fish_speech.checkpoint import CODEC_FILE, PICKLED_FILE, layout_of, s2_name
from antiphon.families.fish_speech.codec import load_decoder
from antiphon.families.fish_speech.codec_schema import CodecSizes, codec_layout
from antiphon.families.fish_speech.config import Layout, load_config
from antiphon.families.fish_speech.encoder import DacEncoder
from antiphon.families.fish_speech.sizes import CONFIGS
from antiphon.families.fish_speech.sizes import make_checkpoint as without_weights
from antiphon.families.fish_speech.weights import DECODER, ENCODER, codec_sizes, codec_weights
from antiphon.families.kit.random_checkpoint import configs_of
from antiphon.nn.codec_layers.windowed_decoder import WindowedDecoder
from antiphon.nn.safetensors_index import Shape
from tests.families.random_files import RandomTensor, write_tensors
from tests.families.whole_checkpoints import Whole, WholeCheckpoints

TINY_CODEC = ConfigSection(
    CONFIGS, "", configs_of(CONFIGS, "tiny")["config.json"]["codec_config"]
).build(CodecSizes)
_CODEC_SEED_OFFSET = 1
# The first match applies. A gain of 1 preserves the variance of random inputs.
_GAINS = (
    (r"(fast_)?layers\..*\.(wo|w2)\.weight", 1.5),
    (r"fast_output\.weight", 3.0),
    (r"decoder\.model\.\d+\.block\.[234]\..*conv\.weight", 0.6),
    (r"decoder\.model\.\d+\.block\.1\.conv\.weight", 0.8),
    (r"decoder\.model\.6\.conv\.weight", 0.1),
    (r"encoder\.block\.0\.conv\.weight", 8.0),
    (r"encoder\..*\.weight", 1.3),
)
_NEAR = (  # mean, standard deviation
    (r".*\.alpha", 1.0, 0.2),
    (r".*\.gamma", 0.3, 0.05),
    (r".*[qk]_norm\.weight", 1.5, 0.1),
    (r".*norm\.weight", 1.0, 0.1),
    (r".*\.bias", 0.0, 0.05),
    (r"embeddings\.weight", 0.0, 0.4),
    (r"fast_embeddings\.weight", 0.0, 1.0),
    (r"codebook_embeddings\.weight", 0.0, 0.35),
    (r".*\.codebook\.weight", 0.0, 1.0),
)
_NORMED = re.compile(r"(encoder|decoder)\..*\.conv\.weight")
_NORMED_AS_BEFORE = re.compile(r".*\.(in|out)_proj\.weight")


def write_weights(path: Path, making: Whole) -> None:
    """Write weights by the configuration in a directory; the codec is always float32.

    S2 has safetensors files, S1 model.pth.
    """
    config, dtype = load_config(path), making.dtype
    main = {name: _tensor(name, shape) for name, shape in layout_of(config).items()}
    section = ConfigSection.read(path / "config.json").section("codec_config", {})
    layout = codec_layout(section.build(CodecSizes))
    codec = {name: _tensor(name, shape) for name, shape in layout.items()}
    if config.layout is Layout.S2:
        named = {s2_name(name): tensor for name, tensor in main.items()}
        write_tensors(path, named, making.seed, dtype, shards=making.shards)
    else:
        kind = torch.bfloat16 if dtype == "bfloat16" else torch.float32
        pickled = {name: _values(name, each, making.seed).to(kind) for name, each in main.items()}
        torch.save(pickled, path / PICKLED_FILE)
    torch.save(dict(_codec_parts(codec, making.seed + _CODEC_SEED_OFFSET)), path / CODEC_FILE)


make_checkpoint = WholeCheckpoints(without_weights, write_weights)


def decoder_in(path: Path) -> WindowedDecoder:
    """Return the codec's decoder of a checkpoint, on the CPU."""
    sizes = codec_sizes(path, load_config(path))
    with codec_weights(path, sizes, DECODER, like=torch.empty(0)) as weights:
        return load_decoder(weights, sizes)


def encoder_in(path: Path) -> DacEncoder:
    """Return the codec's encoder of a checkpoint, on the CPU."""
    sizes = codec_sizes(path, load_config(path))
    with codec_weights(path, sizes, ENCODER, like=torch.empty(0)) as weights:
        return DacEncoder.of(weights, sizes)


def codec_tensor(name: str, shape: Shape, seed: int) -> Tensor:
    return _values(name, _tensor(name, shape), seed)


def _tensor(name: str, shape: Shape) -> RandomTensor:
    for pattern, mean, std in _NEAR:
        if re.fullmatch(pattern, name):
            return RandomTensor(shape, std, mean)
    gain = next((gain for pattern, gain in _GAINS if re.fullmatch(pattern, name)), 1.0)
    return RandomTensor(shape, gain / math.sqrt(_fan_in(name, shape)))


def _fan_in(name: str, shape: Shape) -> int:
    """Return the number of products per output value."""
    if re.fullmatch(r"quantizer\.upsample\.\d+\.0\.conv\.weight", name):
        return shape[0]  # transposed, kernel as wide as its stride
    if re.fullmatch(r"decoder\.model\.\d+\.block\.1\.conv\.weight", name):
        return 2 * shape[0]  # transposed, kernel twice as wide as its stride
    return math.prod(shape[1:])


def _values(name: str, tensor: RandomTensor, seed: int) -> Tensor:
    return torch.from_numpy(tensor.values(name, seed))


def _codec_parts(tensors: Mapping[str, RandomTensor], seed: int) -> Iterator[tuple[str, Tensor]]:
    """Yield the codec's tensors, with weight normalisation stored as in the official files."""
    for name, tensor in tensors.items():
        values = _values(name, tensor, seed)
        prefix = name.removesuffix("weight")
        if _NORMED.fullmatch(name):
            length = torch.norm_except_dim(values, 2, 0)
            yield f"{prefix}parametrizations.weight.original0", length
            yield f"{prefix}parametrizations.weight.original1", values
        elif _NORMED_AS_BEFORE.fullmatch(name):
            yield f"{prefix}weight_g", torch.norm_except_dim(values, 2, 0)
            yield f"{prefix}weight_v", values
        else:
            yield name, values
