"""Flags of ``antiphon serve`` for models that denoise; named as in Dynamo."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from antiphon.cli.flags import SETTING, flag

_CHECKPOINT = "the checkpoint's"


@dataclass(frozen=True)
class DiffusionFlags:
    """Settings of image and video generation; see docs/acceleration.md for support by family."""

    panel: ClassVar[str] = "Images and videos"
    cache_backend: Annotated[
        str | None,
        flag("Skip work of steps that change little: cache_dit or tea_cache.", "none"),
        "diffusion.cache_backend",
    ] = None
    cache_config: Annotated[
        str | None,
        flag("Parameters of the cache, a JSON object.", "the backend's"),
        "diffusion.cache_config",
    ] = None
    enable_cache_dit_summary: Annotated[
        bool | None,
        flag("Log what cache_dit has skipped.", False, "--enable-cache-dit-summary"),
        "diffusion.enable_cache_dit_summary",
    ] = None
    vae_use_slicing: Annotated[
        bool | None,
        flag("Decode the pictures of a batch one by one.", False, "--vae-use-slicing"),
        "diffusion.vae_use_slicing",
    ] = None
    vae_use_tiling: Annotated[
        bool | None,
        flag("Decode in tiles, in less memory.", False, "--vae-use-tiling"),
        "diffusion.vae_use_tiling",
    ] = None
    enable_cpu_offload: Annotated[
        bool | None,
        flag("Keep components in main memory until they run.", False, "--enable-cpu-offload"),
        "diffusion.enable_cpu_offload",
    ] = None
    enable_layerwise_offload: Annotated[
        bool | None,
        flag(
            "Keep the denoiser's layers in main memory until they run.",
            False,
            "--enable-layerwise-offload",
        ),
        "diffusion.enable_layerwise_offload",
    ] = None
    layerwise_num_gpu_layers: Annotated[
        int | None,
        flag("Layers that are on the GPU at once then.", SETTING),
        "diffusion.layerwise_num_gpu_layers",
    ] = None
    enforce_eager: Annotated[
        bool | None,
        flag("Do not compile the denoiser.", False, "--enforce-eager"),
        "diffusion.enforce_eager",
    ] = None
    flow_shift: Annotated[
        float | None, flag("Of the schedule of noise.", _CHECKPOINT), "diffusion.flow_shift"
    ] = None
    boundary_ratio: Annotated[
        float | None,
        flag("Where a second expert takes over, 0 to 1.", _CHECKPOINT),
        "diffusion.boundary_ratio",
    ] = None
    default_video_fps: Annotated[
        int | None,
        flag("Frames a second unless a request sets them.", SETTING),
        "videos.default_fps",
    ] = None
    ulysses_degree: Annotated[
        int | None,
        flag("GPUs that share the heads of attention.", SETTING),
        "diffusion.ulysses_degree",
    ] = None
    ring_degree: Annotated[
        int | None,
        flag("GPUs that share the sequence in a ring.", SETTING),
        "diffusion.ring_degree",
    ] = None
    cfg_parallel_size: Annotated[
        int | None,
        flag("2: a GPU each for the prompt and the negative prompt.", SETTING),
        "diffusion.cfg_parallel_size",
    ] = None
