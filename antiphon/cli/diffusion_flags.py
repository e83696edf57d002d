"""Flags of ``antiphon serve`` for models that denoise; named as in Dynamo."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from antiphon.cli.flags import SETTING, flag

_CHECKPOINT = "the checkpoint's"


@dataclass(frozen=True)
class DiffusionFlags:
    """Settings of image and video generation; see docs/acceleration.md for support by family."""

    panel: ClassVar[str] = "Images and videos"
    section: ClassVar[str] = "diffusion"
    cache_backend: Annotated[
        str | None, flag("Skip work of steps that change little: cache_dit or tea_cache.", "none")
    ] = None
    cache_config: Annotated[
        str | None, flag("Parameters of the cache, a JSON object.", "the backend's")
    ] = None
    enable_cache_dit_summary: Annotated[
        bool | None, flag("Log what cache_dit has skipped.", False, "--enable-cache-dit-summary")
    ] = None
    vae_use_slicing: Annotated[
        bool | None, flag("Decode the pictures of a batch one by one.", False, "--vae-use-slicing")
    ] = None
    vae_use_tiling: Annotated[
        bool | None, flag("Decode in tiles, in less memory.", False, "--vae-use-tiling")
    ] = None
    enable_cpu_offload: Annotated[
        bool | None,
        flag("Keep components in main memory until they run.", False, "--enable-cpu-offload"),
    ] = None
    enable_layerwise_offload: Annotated[
        bool | None,
        flag(
            "Keep the denoiser's layers in main memory until they run.",
            False,
            "--enable-layerwise-offload",
        ),
    ] = None
    layerwise_num_gpu_layers: Annotated[
        int | None, flag("Layers that are on the GPU at once then.", SETTING)
    ] = None
    enforce_eager: Annotated[
        bool | None, flag("Do not compile the denoiser.", False, "--enforce-eager")
    ] = None
    flow_shift: Annotated[float | None, flag("Of the schedule of noise.", _CHECKPOINT)] = None
    boundary_ratio: Annotated[
        float | None, flag("Where a second expert takes over, 0 to 1.", _CHECKPOINT)
    ] = None
    default_video_fps: Annotated[
        int | None,
        flag("Frames a second unless a request sets them.", SETTING),
        "videos.default_fps",
    ] = None
    ulysses_degree: Annotated[
        int | None, flag("GPUs that share the heads of attention.", SETTING)
    ] = None
    ring_degree: Annotated[int | None, flag("GPUs that share the sequence in a ring.", SETTING)] = (
        None
    )
    cfg_parallel_size: Annotated[
        int | None, flag("2: a GPU each for the prompt and the negative prompt.", SETTING)
    ] = None
