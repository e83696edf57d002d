"""Settings of diffusion models: caches, memory, parallelism."""

import json
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from antiphon.config.base import SettingsSection


class Acceleration(StrEnum):
    """Capabilities of diffusion families that `DiffusionSettings` can enable."""

    CACHE_DIT = "cache_dit"
    TEA_CACHE = "tea_cache"
    VAE_SLICING = "vae_slicing"
    VAE_TILING = "vae_tiling"
    CPU_OFFLOAD = "cpu_offload"
    LAYERWISE_OFFLOAD = "layerwise_offload"
    FLOW_SHIFT = "flow_shift"
    BOUNDARY_RATIO = "boundary_ratio"
    ULYSSES = "ulysses"
    RING = "ring"
    CFG_PARALLEL = "cfg_parallel"


DIFFUSERS_ACCELERATIONS = frozenset(
    {
        *(Acceleration.CACHE_DIT, Acceleration.TEA_CACHE),
        *(Acceleration.VAE_SLICING, Acceleration.VAE_TILING),
        *(Acceleration.CPU_OFFLOAD, Acceleration.LAYERWISE_OFFLOAD),
    }
)
"""Capabilities of every family with networks of diffusers."""


def _parsed(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError as error:
        raise ValueError(f"not a JSON object: {error}") from error


class DiffusionSettings(SettingsSection):
    """Options of all diffusion models; a model that does not support one refuses to start."""

    max_batch: int = Field(
        4, ge=1, description="Requests of equal shape and settings that are denoised together."
    )
    max_wait_s: float = Field(
        120.0, ge=0, description="Longest predicted wait for the first step; beyond it: 429."
    )
    cache_backend: Literal["cache_dit", "tea_cache"] | None = Field(
        None, description="Skip work of a step that changes little; images differ a little then."
    )
    cache_config: Annotated[dict[str, Any], BeforeValidator(_parsed)] = Field(
        default_factory=dict,
        description="Parameters of the cache backend, as in its documentation.",
    )
    enable_cache_dit_summary: bool = Field(
        False, description="Log what cache_dit has skipped after each request."
    )
    vae_use_slicing: bool = Field(False, description="Decode the images of a batch one by one.")
    vae_use_tiling: bool = Field(False, description="Decode in tiles: less memory for large sizes.")
    enable_cpu_offload: bool = Field(
        False, description="Keep each component in main memory while another one runs."
    )
    enable_layerwise_offload: bool = Field(
        False, description="Keep layers of the denoiser in main memory until they run."
    )
    layerwise_num_gpu_layers: int = Field(
        1, ge=1, description="Layers that are on the GPU at once with enable_layerwise_offload."
    )
    enforce_eager: bool = Field(
        False, description="Do not compile the denoiser (torch.compile) on a GPU."
    )
    flow_shift: float | None = Field(
        None, gt=0, description="Of the flow-matching schedule; default: the checkpoint's."
    )
    boundary_ratio: float | None = Field(
        None, ge=0, le=1, description="Where a second expert takes over; default: the checkpoint's."
    )
    ulysses_degree: int = Field(1, ge=1, description="GPUs that share the heads of attention.")
    ring_degree: int = Field(1, ge=1, description="GPUs that share the sequence in a ring.")
    cfg_parallel_size: Literal[1, 2] = Field(
        1, description="2: a GPU each for the prompt and the negative prompt."
    )

    @property
    def num_processes(self) -> int:
        """Processes of a denoiser, each with one GPU."""
        return self.ulysses_degree * self.ring_degree * self.cfg_parallel_size


def devices_of_ranks(first: str, num_ranks: int) -> tuple[str, ...]:
    """Return the devices of the ranks of a parallel step: ``first``, and the GPUs after it."""
    kind, _, index = first.partition(":")
    if kind != "cuda":
        return (first,) * num_ranks
    return tuple(f"cuda:{int(index or 0) + rank}" for rank in range(num_ranks))
