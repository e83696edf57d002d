"""How models that denoise are run: caches, memory, several GPUs."""

from typing import Any, Literal

from pydantic import Field

from antiphon.config.base import SettingsSection


class DiffusionSettings(SettingsSection):
    """Of all models that denoise; one that cannot honour a setting refuses to start."""

    max_batch: int = Field(
        4, ge=1, description="Requests of equal shape and settings that are denoised together."
    )
    max_wait_s: float = Field(
        120.0, ge=0, description="Longest predicted wait for the first step; beyond it: 429."
    )
    cache_backend: Literal["cache_dit", "tea_cache"] | None = Field(
        None, description="Skip work of a step that changes little; images differ a little then."
    )
    cache_config: dict[str, Any] = Field(
        default_factory=dict, description="Parameters of the cache backend, as its documents say."
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
