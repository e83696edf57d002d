"""Writer of checkpoints with random weights in diffusers' layout.

They are loaded by diffusers as by us, so that both can be compared where no published weights are
at hand. Networks are given on the meta device: their configurations and the names and shapes of
their tensors are all that is read of them, so that large checkpoints need little memory.
"""

import json
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.core_model_loading import revert_weight_conversion

from antiphon.diffusion.model_index import MODEL_INDEX, ModelIndex
from antiphon.nn.random_weights import Dtype
from antiphon.nn.safetensors_index import Shape
from tests.families.random_files import RandomTensor, write_tensors
from tests.families.whole_checkpoints import Whole

_BIAS_STD = 0.02
_UNIT = ("weight", "gamma")
"""What the factors of a normalization are called; all vectors of other names are added."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomPipeline:
    """Contents of a checkpoint.

    Attributes:
        pipeline: diffusers' class that loads it.
        networks: networks by name of the component, on the meta device.
        others: schedulers, tokenizers and processors, by name of the component.
        settings: other entries of model_index.json.
        missing: optional components that it does not have.
        weights: mean and standard deviation of tensors that the usual ones do not suit, by regular
            expressions for whole names.
    """

    pipeline: str
    networks: Mapping[str, nn.Module]
    others: Mapping[str, Any]
    settings: Mapping[str, Any] = field(default_factory=dict)
    missing: Sequence[str] = ()
    weights: Mapping[str, tuple[float, float]] = field(default_factory=dict)


def write_pipeline(
    path: Path,
    pipeline: RandomPipeline,
    *,
    seed: int = 0,
    dtype: Dtype = "float32",
    shards: int = 1,
) -> None:
    """Write a checkpoint's directory; files of an existing one are replaced one by one."""
    path.mkdir(parents=True, exist_ok=True)
    _write_index(path, pipeline)
    for name, other in pipeline.others.items():
        other.save_pretrained(str(path / name))
    making = Whole(seed=seed, dtype=dtype, shards=shards)
    write_networks(path, pipeline.networks, making, pipeline.weights)


def write_weights(
    path: Path, making: Whole, weights: Mapping[str, tuple[float, float]] | None = None
) -> None:
    """Write the weights of a checkpoint's directory, of whose configurations there are all."""
    from antiphon.diffusion.tensor_shapes import network_of  # needs diffusers

    with torch.device("meta"):
        networks = {
            name: network_of(path / name, kind)
            for name, kind in ModelIndex.read(path).components.items()
            if (path / name / "config.json").is_file()
        }
    write_networks(path, networks, making, weights or {})


def write_networks(
    path: Path,
    networks: Mapping[str, nn.Module],
    making: Whole,
    weights: Mapping[str, tuple[float, float]],
) -> None:
    """Write configurations and weights of networks; arguments as for `write_weights`."""
    largest = max(networks, key=lambda name: sum(x.numel() for x in networks[name].parameters()))
    for name, network in networks.items():
        folder = path / name
        folder.mkdir(exist_ok=True)
        is_transformers = isinstance(network, PreTrainedModel)
        if isinstance(network, PreTrainedModel):
            network.config.architectures = [type(network).__name__]
            network.config.dtype = making.dtype
            network.config.save_pretrained(str(folder))
        else:
            network.save_config(str(folder))  # type: ignore[operator]
        write_tensors(
            folder,
            _random_tensors(network, weights),
            seed_of(name, making.seed),
            making.dtype,
            shards=making.shards if name == largest else 1,
            stem="model" if is_transformers else "diffusion_pytorch_model",
        )


def seed_of(name: str, seed: int) -> int:
    """Return the seed of a network, so that tensors of equal names in two of them differ."""
    return seed + zlib.crc32(name.encode())


def _write_index(path: Path, pipeline: RandomPipeline) -> None:
    import diffusers

    components = {**pipeline.networks, **pipeline.others}
    content: dict[str, Any] = {
        "_class_name": pipeline.pipeline,
        "_diffusers_version": diffusers.__version__,
        **pipeline.settings,
        **{
            name: [type(each).__module__.partition(".")[0], type(each).__name__]
            for name, each in sorted(components.items())
        },
        **{name: [None, None] for name in pipeline.missing},
    }
    (path / MODEL_INDEX).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _random_tensors(
    network: nn.Module, weights: Mapping[str, tuple[float, float]]
) -> dict[str, RandomTensor]:
    """Return what to draw for each tensor that the network's own library would save."""
    state: Mapping[str, Tensor] = network.state_dict()
    if isinstance(network, PreTrainedModel):
        tied = network.all_tied_weights_keys
        state = {name: each for name, each in state.items() if name not in tied}
        state = revert_weight_conversion(network, state)
    return random_tensors({name: tuple(each.shape) for name, each in state.items()}, weights)


def random_tensors(
    layout: Mapping[str, Shape], weights: Mapping[str, tuple[float, float]]
) -> dict[str, RandomTensor]:
    """Return what to draw for each tensor; ``weights`` as of `RandomPipeline`."""
    made = {name: _random_tensor(name, shape) for name, shape in layout.items()}
    for pattern, (mean, std) in weights.items():
        for name in filter(re.compile(pattern).fullmatch, made):
            made[name] = RandomTensor(made[name].shape, std, mean)
    return made


def _random_tensor(name: str, shape: tuple[int, ...]) -> RandomTensor:
    """Return matrices that keep the size of what they are given, and factors of 1."""
    num_inputs = 1
    for size in shape[1:]:
        num_inputs *= size
    if num_inputs > 1:
        return RandomTensor(shape, num_inputs**-0.5)
    if name.rpartition(".")[2] in _UNIT:
        return RandomTensor(shape, 0.0, mean=1.0)
    return RandomTensor(shape, _BIAS_STD)
