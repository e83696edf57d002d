"""The original weights in PyTorch, in float32, on a GPU or a CPU."""

import logging
import re
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from antiphon.contracts.family import LoadContext
from antiphon.contracts.types import Samples
from antiphon.errors import ModelLoadError
from antiphon.families.kit.formats.torch_file import joined_weights, read_torch_file
from antiphon.families.kokoro.checkpoint import PAD_ID, KokoroCheckpoint, load_config
from antiphon.families.kokoro.graph_network import GraphNetwork
from antiphon.families.kokoro.model import KokoroModel
from antiphon.families.kokoro.vocoder import NUM_HARMONICS
from antiphon.nn.device import resolve_device
from antiphon.nn.dummy_weights import DrawnTensors
from antiphon.nn.precision import exact_float32
from antiphon.nn.safetensors_index import some

_log = logging.getLogger(__name__)

# Instance norms were trained without these; positions are numbers; the pooler is never used.
_OPTIONAL = re.compile(
    r".*\.norm[12]?(\.norm)?\.(weight|bias)|.*\.adain[12]\.\d+\.norm\.(weight|bias)"
)
_UNUSED = re.compile(r"bert\.(pooler\.|embeddings\.position_ids).*")


class TorchNetwork:
    """Speaks sentence by sentence; any number of threads may call it at the same time."""

    def __init__(self, model: KokoroModel, device: torch.device) -> None:
        self._model = model
        self._device = device
        # A GPU would round factors of convolutions to ten bits of fraction.
        self._precision = exact_float32 if device.type == "cuda" else nullcontext

    @torch.inference_mode()
    def speak(
        self, ids: tuple[int, ...], style: NDArray[np.float32], seed: tuple[int, int]
    ) -> tuple[Samples, NDArray[np.float32]]:
        """Return samples and durations; see `antiphon.families.kokoro.generator.KokoroNetwork`."""
        drawn = np.random.default_rng(seed)

        def draw(length: int) -> Tensor:
            size = self._model.config.frame_upsampling * NUM_HARMONICS
            noise = drawn.standard_normal((1, length, size), np.float32)
            return torch.from_numpy(noise).to(self._device)

        padded = torch.tensor([[PAD_ID, *ids, PAD_ID]], device=self._device)
        with self._precision():
            samples, durations = self._model(padded, torch.from_numpy(style).to(self._device), draw)
        return samples.cpu().numpy(), durations.cpu().numpy().astype(np.float32)


def load_torch_network(
    checkpoint: KokoroCheckpoint, context: LoadContext
) -> TorchNetwork | GraphNetwork:
    """Load the original weights; a GPU runs them as CUDA graphs; raises ModelLoadError."""
    device = resolve_device(context.device, context.memory_fraction, context.cpu_threads)
    file = None if context.is_dummy else checkpoint.weights
    model = build_model(checkpoint.path, file).eval()
    if device.type != "cuda":
        return TorchNetwork(model, device)
    return GraphNetwork(model.to(device), device)


def build_model(path: Path, file: Path | None) -> KokoroModel:
    """Return the network of a checkpoint's directory, with the weights of a file, on the CPU.

    Without a file, weights are drawn. Raises ModelLoadError.
    """
    config = load_config(path)
    weights = {} if file is None else joined_weights(_read(file))
    channels, skipped = config.decoder_channels if file is None else _channels(file, weights)
    with torch.device("meta"):
        model = KokoroModel(config, num_channels=channels, num_skipped=skipped)
    model.to_empty(device="cpu")
    model.decoder.generator.reset_window()
    wanted = model.state_dict()
    if file is None:
        layout = {name: tuple(tensor.shape) for name, tensor in wanted.items()}
        drawn = DrawnTensors(layout, torch.empty(0))
        weights = {name: drawn.get_tensor(name) for name in wanted}
    else:
        for name, tensor in wanted.items():
            if name not in weights and _OPTIONAL.fullmatch(name):
                weights[name] = torch.full_like(tensor, 1.0 if name.endswith("weight") else 0.0)
        _check(file, wanted, weights)
    model.load_state_dict({name: weights[name] for name in wanted})
    return model


def _channels(file: Path, weights: Mapping[str, Tensor]) -> tuple[int, int]:
    sizes = {name: weights.get(f"decoder.{name}.weight") for name in ("encode.conv1", "asr_res.0")}
    for name, found in sizes.items():
        if found is None:
            raise ModelLoadError(f"{file}: 'decoder.{name}.weight' is missing.")
    channels, skipped = (len(each) for each in sizes.values() if each is not None)
    return channels, skipped


def _read(file: Path) -> dict[str, Tensor]:
    parts = read_torch_file(file)
    if not isinstance(parts, dict) or not all(isinstance(each, dict) for each in parts.values()):
        raise ModelLoadError(f"{file}: cannot be read: it does not hold weights in parts.")
    return {
        f"{part}.{name.removeprefix('module.')}": tensor
        for part, tensors in parts.items()
        for name, tensor in tensors.items()
    }


def _check(file: Path, wanted: Mapping[str, Tensor], weights: Mapping[str, Tensor]) -> None:
    """Refuse a file in which a weight is missing, or has another shape; raises ModelLoadError."""
    missing = [name for name in wanted if name not in weights]
    if missing:
        raise ModelLoadError(f"{file}: {some(missing)} missing.")
    for name, tensor in wanted.items():
        if weights[name].shape != tensor.shape:
            raise ModelLoadError(
                f"{file}: '{name}' has the shape {tuple(weights[name].shape)} instead of"
                f" {tuple(tensor.shape)}."
            )
    unused = [name for name in weights if name not in wanted and not _UNUSED.fullmatch(name)]
    if unused:
        _log.warning("%s: not used: %s", file, some(unused))
