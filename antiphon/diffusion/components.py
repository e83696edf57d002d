"""Loader of components of a checkpoint in diffusers' layout, which accounts for all tensors.

Each stage loads what it needs and nothing else, so that stages can lie on different devices.
"""

import gc
import re
from abc import ABC, abstractmethod
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import diffusers
import torch
import transformers
from accelerate import init_empty_weights
from torch import nn

from antiphon.contracts.family import LoadContext
from antiphon.diffusion.acceleration import NetworkAccelerator
from antiphon.diffusion.loading_faults import read_folder
from antiphon.diffusion.model_index import ModelIndex
from antiphon.diffusion.tensor_shapes import network_of
from antiphon.errors import ModelLoadError
from antiphon.nn.device import resolve_device, resolve_dtype
from antiphon.nn.dummy_weights import DrawnTensors
from antiphon.nn.safetensors_index import some

T = TypeVar("T")
_NOTHING = re.compile(r"(?!)")
_UNNEEDED = re.compile(r"(.*\.)?(lm_head\.weight|rotary_emb\.inv_freq|position_ids)|decoder\..*")
"""Tensors that text encoders do not need: heads, decoders and computed tables."""
ModuleT = TypeVar("ModuleT", bound=nn.Module)


class ComponentLoader:
    """Loads components of one checkpoint.

    Attributes:
        context: folder, device and settings of the stage.
        dtype: element type of their weights.
        accelerator: accelerator that places and prepares the modules.
    """

    def __init__(self, context: LoadContext) -> None:
        """Read the index; raises ModelLoadError."""
        self.context = context
        self.index = ModelIndex.read(context.checkpoint)
        self.device = resolve_device(context.device, context.memory_fraction, context.cpu_threads)
        self.dtype = resolve_dtype(context.dtype, self.device)
        self.accelerator = NetworkAccelerator(context.diffusion, self.device)

    def module(
        self, name: str, kind: type[ModuleT], *, dtype: torch.dtype | None = None
    ) -> ModuleT:
        """Load a network of diffusers or transformers; it is frozen, on the device.

        Args:
            dtype: element type of its weights; ``None``: that of the loader.

        Raises:
            ModelLoadError: The component is missing, of another class, its files are
                broken, or its tensors are not those of its configuration.
            SettingsError: The component does not support the acceleration that the settings
                request.
        """
        self.index.check(name, kind.__name__)
        folder = self.index.path / name
        if self.context.is_dummy:
            module = read_folder(folder, lambda: self._drawn(folder, kind, dtype or self.dtype))
        else:
            module = self._read(name, kind, dtype or self.dtype)
        self.accelerator.add(name, module.requires_grad_(False).eval())
        assert isinstance(module, kind)
        return module

    def _read(self, name: str, kind: type[ModuleT], dtype: torch.dtype) -> ModuleT:
        folder = self.index.path / name
        progress = self.context.progress_of(name)
        num_bytes = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
        if progress is not None:
            progress(0, num_bytes)
        # The two libraries call the same argument by different names.
        from_diffusers = kind.__module__.startswith("diffusers.")
        weights = {"torch_dtype" if from_diffusers else "dtype": dtype}
        module, report = self._load(
            name, kind, use_safetensors=True, output_loading_info=True, **weights
        )
        problems = [
            f"{what.replace('_', ' ')}: {some(map(str, report[what]))}"
            for what in ("missing_keys", "mismatched_keys", "error_msgs")
            if report.get(what)
        ]
        unneeded = _NOTHING if from_diffusers else _UNNEEDED
        if unknown := [key for key in report["unexpected_keys"] if not unneeded.fullmatch(key)]:
            problems.append(f"not part of such a model: {some(unknown)}")
        if problems:
            raise ModelLoadError(f"{folder}: tensors {'; '.join(problems)}")
        if progress is not None:
            progress(num_bytes, num_bytes)
        loaded: ModuleT = module
        return loaded

    def _drawn(self, folder: Path, kind: type[ModuleT], dtype: torch.dtype) -> ModuleT:
        with init_empty_weights():  # buffers are computed
            network = network_of(folder, kind.__name__)
        kept = {*(network._keep_in_fp32_modules or ())}
        state: dict[str, torch.Tensor] = network.state_dict()
        for name, tensor in state.items():
            if tensor.is_floating_point():
                own = torch.float32 if kept & set(name.split(".")) else dtype
                like = torch.empty(0, dtype=own, device=self.device)
                state[name] = DrawnTensors({name: tuple(tensor.shape)}, like).get_tensor(name)
        network.load_state_dict(state, assign=True)
        placed: ModuleT = network.to(self.device)
        return placed

    def other(self, name: str, kind: type[T]) -> T:
        """Load a component that is not a network, such as a tokenizer; raises ModelLoadError."""
        self.index.check(name)
        loaded = self._load(name, kind)
        assert isinstance(loaded, kind)
        return loaded

    def _load(self, name: str, kind: Any, **options: Any) -> Any:
        for library in (diffusers, transformers):  # their bars would be drawn over ours
            library.utils.logging.disable_progress_bar()
        folder = self.index.path / name
        load = partial(kind.from_pretrained, str(folder), local_files_only=True, **options)
        return read_folder(folder, load, torch.OutOfMemoryError)


class ComponentUser(ABC):
    """Base class of stages that hold components; a family defines which."""

    def __init__(self, context: LoadContext) -> None:
        """Load the components; raises ModelLoadError."""
        self._loader = ComponentLoader(context)
        self.load(self._loader)

    @abstractmethod
    def load(self, loader: ComponentLoader) -> None:
        """Load the components that this stage needs."""

    def close(self) -> None:
        device = self._loader.device
        self._loader.accelerator.close()
        self.__dict__.clear()
        gc.collect()
        if device.type == "cuda":
            torch.cuda.empty_cache()
