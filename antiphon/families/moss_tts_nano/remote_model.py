"""Strict loader of a checkpoint's own classes, and random numbers per request."""

import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from transformers.dynamic_module_utils import get_class_from_dynamic_module

from antiphon.contracts.config_file import ConfigSection
from antiphon.errors import ModelLoadError

_FAULTS = (
    *(ImportError, AttributeError, OSError, SyntaxError, TypeError, ValueError),
    *(ArithmeticError, AssertionError, LookupError, NameError, RuntimeError),
)
_SHOWN = 3
_random_lock = threading.Lock()
"""Lock of PyTorch's random state, which is shared by the whole process."""


def load_remote(
    path: Path,
    kind: Literal["AutoModel", "AutoModelForCausalLM"],
    *,
    device: torch.device,
    dtype: torch.dtype,
) -> Any:
    """Build a checkpoint's own class, and load its weights into it; raises ModelLoadError.

    The class is built on a real device, because non-persistent buffers, such as rotary frequencies,
    would be lost on a meta device. Classes are not registered globally, because another checkpoint
    may define classes of the same names.

    Args:
        path: directory whose code is run.
        kind: key of the class in ``auto_map``.
    """
    named = ConfigSection.read(path / "config.json").section("auto_map")
    try:
        config_class, model_class = (
            get_class_from_dynamic_module(named.text(key), path, local_files_only=True)
            for key in ("AutoConfig", kind)
        )
        config = config_class.from_pretrained(path, local_files_only=True)
        model = model_class(config)
    except _FAULTS as error:
        raise ModelLoadError(f"{path}: its code cannot build its {kind}: {error!r}") from error
    _load_weights(model, _read_weights(path), path)
    # The checkpoint's code may not disable gradients, which would keep a request's activations.
    return model.to(device=device, dtype=dtype).eval().requires_grad_(requires_grad=False)


def _load_weights(model: torch.nn.Module, weights: Mapping[str, torch.Tensor], path: Path) -> None:
    try:
        found = model.load_state_dict(dict(weights), strict=False)
    except RuntimeError as error:
        raise ModelLoadError(f"{path}: {error}") from error
    own = dict(model.state_dict(keep_vars=True))
    loaded = {own[name].data_ptr() for name in weights if name in own}
    missing = [name for name in found.missing_keys if own[name].data_ptr() not in loaded]
    for problem, names in (("missing", missing), ("unknown", found.unexpected_keys)):
        if names:
            more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
            raise ModelLoadError(f"{path}: {problem} weights: {', '.join(names[:_SHOWN])}{more}")


def _read_weights(path: Path) -> Mapping[str, torch.Tensor]:
    weights: dict[str, torch.Tensor] = {}
    tensor_files = sorted(path.glob("*.safetensors"))
    for file in tensor_files or sorted(path.glob("pytorch_model*.bin")):
        try:
            if tensor_files:
                weights.update(load_file(file))
            else:
                weights.update(torch.load(file, map_location="cpu", weights_only=True))
        except (SafetensorError, OSError, RuntimeError, ValueError) as error:
            raise ModelLoadError(f"{file}: cannot be read: {error}") from error
    return weights


class RequestRandomness:
    """Context manager with PyTorch's random state of one request, entered for each step.

    Random numbers of the request and of other code do not affect each other.
    """

    def __init__(self, seed: int, device: torch.device) -> None:
        self._device = device if device.type == "cuda" else None
        devices = [torch.device("cpu"), *([device] if self._device is not None else [])]
        seeded = (torch.Generator(each).manual_seed(seed % 2**63) for each in devices)
        self._own = self._others = [generator.get_state() for generator in seeded]

    def __enter__(self) -> None:
        _random_lock.acquire()
        self._others = self._states()
        self._set(self._own)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._own = self._states()
        self._set(self._others)
        _random_lock.release()

    def _states(self) -> list[torch.Tensor]:
        states = [torch.get_rng_state()]
        if self._device is not None:
            states.append(torch.cuda.get_rng_state(self._device))
        return states

    def _set(self, states: list[torch.Tensor]) -> None:
        torch.set_rng_state(states[0])
        if self._device is not None:
            torch.cuda.set_rng_state(states[1], self._device)
