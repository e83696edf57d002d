"""Readers of weights in the published files: both models, and the codec."""

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Unpack

import torch

from antiphon.contracts.config_file import ConfigSection
from antiphon.errors import ModelLoadError
from antiphon.families.fish_speech.checkpoint import (
    CODEC_FILE,
    PICKLED_FILE,
    layout_of,
    model_part,
    tied,
    unread,
)
from antiphon.families.fish_speech.codec_schema import CodecSizes, codec_layout
from antiphon.families.fish_speech.config import FishSpeechConfig
from antiphon.families.kit.formats.torch_file import StoredTensors, TorchPart, open_tensors
from antiphon.nn.layers import Weights
from antiphon.nn.quantized.directory import read_directory
from antiphon.nn.weights import WeightOptions, check_tied, open_weights


@contextmanager
def model_weights(
    path: Path, config: FishSpeechConfig, **how: Unpack[WeightOptions]
) -> Iterator[Weights]:
    """Open the slow and the fast model in a checkpoint's directory; see `open_weights`.

    Raises:
        ModelLoadError: on entering, if the files do not match the configuration; on leaving, if a
            tensor was not used.
    """
    file, layout = path / PICKLED_FILE, layout_of(config)
    if how.get("is_dummy") or not config.is_s2:
        stored = None if how.get("is_dummy") else _read_pickled(file, config)
        with open_tensors(file, stored, layout, **how) as weights:
            yield weights
        return
    check_tied(path, tied(config, read_directory(path)))
    with open_weights(model_part(path, config), **how) as weights:
        yield weights


def _read_pickled(file: Path, config: FishSpeechConfig) -> StoredTensors:
    """Return the tensors of S1's file, whose names may begin with "model."."""
    named = TorchPart(file=file, layout={}, prefix="model.").read().tensors
    others = re.compile(unread(config))
    for head, embedding in tied(config, named).items():
        if embedding in named and not torch.equal(named[head], named[embedding]):
            raise ModelLoadError(f"{file}: tensors: '{head}' differs from '{embedding}'")
    return StoredTensors({name: each for name, each in named.items() if not others.fullmatch(name)})


_QUANTIZERS = r"quantizer\.(semantic_)?quantizer\."
ENCODER = rf"(encoder|quantizer\.downsample|quantizer\.pre_module)\..*|{_QUANTIZERS}.*"
"""Regular expression of the names of the encoder's tensors."""
DECODER = (
    r"(decoder|quantizer\.upsample|quantizer\.post_module)\..*"
    rf"|{_QUANTIZERS}.*\.(out_proj|codebook)\..*"
)
"""Regular expression of the names of the decoder's tensors."""
_UNREAD_CODEC = r".*\.(freqs_cis|causal_mask)"


def codec_sizes(path: Path, config: FishSpeechConfig) -> CodecSizes:
    """Return the sizes of a checkpoint's codec; raises ModelLoadError.

    Published ones are the same; checkpoints of other sizes have ``codec_config`` in config.json.
    """
    section = ConfigSection.read(path / "config.json").section("codec_config", {})
    sizes = section.build(CodecSizes, num_residual=config.num_codebooks - 1)
    num_semantic, num_residual = sizes.semantic_codes, sizes.residual_codes
    if num_semantic < config.tokens.num_semantic or num_residual < config.residual_codes:
        raise ModelLoadError(f"{path}: the codec has smaller codebooks than the model")
    return sizes


def codec_weights(
    path: Path, sizes: CodecSizes, names: str, **how: Unpack[WeightOptions]
) -> AbstractContextManager[Weights]:
    """Open a part of the codec, `ENCODER` or `DECODER`, each tensor of which must be used.

    Complete training files name the codec "generator".

    Raises:
        ModelLoadError: see `model_weights`.
    """
    layout = codec_layout(sizes)
    part = TorchPart(
        file=path / CODEC_FILE,
        layout={name: shape for name, shape in layout.items() if re.fullmatch(names, name)},
        prefix="generator.",
        unused=rf"{_UNREAD_CODEC}|(?!({names})$).*",
    )
    return part.open(**how)
