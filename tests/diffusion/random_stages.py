"""Stages of published sizes with random weights that no file holds, to measure what steps take.

A folder has the configurations, the tokenizer and the schedule of a checkpoint; networks are made
where they shall run. Texts are not encoded: a text's embeddings are random numbers.
"""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import nn

from antiphon.contracts.family import LoadContext, StageSpec, Task
from antiphon.contracts.picture_types import DiffusionParameters, ImageRequest, VideoRequest
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import Latents
from antiphon.diffusion.components import ComponentLoader
from antiphon.diffusion.protocol import Denoiser
from antiphon.families.registry import checkpoint_family, family

_SEED = 1
_GUIDANCE_SCALE = 5.0
_PROMPT = "a red cat"


@dataclass(frozen=True, slots=True)
class Subject:
    """Networks and requests that are measured of a family; requests have no number of steps."""

    family: str
    pipeline: str
    size: str
    request: ImageRequest | VideoRequest
    text_shape: tuple[int, ...]

    def request_of(self, num_steps: int) -> ImageRequest | VideoRequest:
        parameters = DiffusionParameters(
            num_inference_steps=num_steps, guidance_scale=_GUIDANCE_SCALE
        )
        return replace(self.request, parameters=parameters)

    def tiny(self) -> "Subject":
        """Return one that a CPU computes at once."""
        small: dict[str, Any] = {"width": 32, "height": 32}
        if isinstance(self.request, VideoRequest):
            small["num_frames"] = 5
        request = replace(self.request, **small)
        return replace(self, size="tiny", request=request, text_shape=(*self.text_shape[:-1], 32))


SUBJECTS = {
    "wan": Subject(
        "wan_video",
        "WanPipeline",
        "1.3b",
        VideoRequest(_PROMPT, width=832, height=480, num_frames=33),
        (512, 4096),
    ),
    "ovis": Subject(
        "ovis_image",
        "OvisImagePipeline",
        "7b",
        ImageRequest(_PROMPT, width=1024, height=1024),
        (1, 256, 2048),
    ),
}


def write_folder(path: Path, subject: Subject) -> None:
    """Write all of a checkpoint but its weights."""
    maker = family(subject.family).checkpoint_maker
    assert maker is not None
    maker.resolve()(path, size=subject.size)


def text_embeddings(subject: Subject) -> Latents:
    """Return what the text encoder would make of a prompt and a negative prompt."""
    drawn = np.random.default_rng(_SEED).standard_normal((2, *subject.text_shape), np.float32)
    return Latents({"prompt_embeds": drawn[0], "negative_prompt_embeds": drawn[1]})


def prompt_of(subject: Subject, path: Path, num_steps: int, seed: int = _SEED) -> Prompt:
    prompter = _task_of(path).prompter.resolve()(LoadContext(path, device="cpu"))
    prompt: Prompt = prompter.build(subject.request_of(num_steps), seed)
    return prompt


def random_network(
    kind: type[nn.Module], folder: Path, device: torch.device, dtype: torch.dtype
) -> nn.Module:
    """Return a network of diffusers, with the types of numbers that loading would give it."""
    make: Any = kind
    torch.manual_seed(_SEED)
    with torch.device(device):
        network: Any = make.from_config(make.load_config(str(folder)))
    kept = network._keep_in_fp32_modules or ()
    for name, parameter in network.named_parameters():
        if not set(name.split(".")) & set(kept):
            parameter.data = parameter.data.to(dtype)
    frozen: nn.Module = network.requires_grad_(False).eval()
    return frozen


@contextmanager
def without_files() -> Generator[None, None, None]:
    """Let stages that are loaded meanwhile make their networks instead of reading them."""

    def module(loader: ComponentLoader, name: str, kind: Any, *, dtype: Any = None) -> Any:
        folder = loader.index.path / name
        network = random_network(kind, folder, loader.device, dtype or loader.dtype)
        settings = loader.context.diffusion
        if settings.enable_cpu_offload or settings.enable_layerwise_offload:
            network.to("cpu")  # where reading would leave it
        loader.accelerator.add(name, network)
        return network

    with patch.object(ComponentLoader, "module", module):
        yield


def load_denoiser(context: LoadContext) -> Denoiser:
    """Make the denoiser of a folder, in a process of its own or one of several."""
    if torch.distributed.is_initialized():
        if torch.device(context.device).type == "cuda":
            assert torch.distributed.get_backend() == "nccl"
        else:  # diffusers asks how many accelerators there are
            torch.accelerator.device_count = lambda: 1
    with without_files():
        denoiser: Denoiser = _stage(context, "denoiser").factory.resolve()(context)
    return denoiser


def load_vae(context: LoadContext) -> Any:
    with without_files():
        return _stage(context, "vae").factory.resolve()(context)


def load_pipeline(subject: Subject, path: Path, device: str) -> Any:
    """Make diffusers' own pipeline of a folder, without text encoder and VAE."""
    import diffusers

    from antiphon.nn.device import resolve_dtype

    place = torch.device(device)
    kind = getattr(diffusers, subject.pipeline)
    names = {name: None for name in ("tokenizer", "text_encoder", "vae")}
    index = kind.load_config(str(path))
    scheduler = getattr(diffusers, index["scheduler"][1])
    transformer = getattr(diffusers, index["transformer"][1])
    pipeline = kind(
        **names,
        scheduler=scheduler.from_pretrained(str(path / "scheduler")),
        transformer=random_network(
            transformer, path / "transformer", place, resolve_dtype("auto", place)
        ),
    )
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def _task_of(path: Path) -> Task:
    (task,) = checkpoint_family(path).tasks.values()
    return task


def _stage(context: LoadContext, name: str) -> StageSpec:
    assert context.path is not None
    return next(stage for stage in _task_of(context.path).pipeline if stage.name == name)
