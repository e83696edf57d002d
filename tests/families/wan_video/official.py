"""Videos by diffusers' own pipelines, and requests small enough to make them in a second."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antiphon.contracts.picture_types import DiffusionParameters, VideoRequest

LAYOUTS = ("t2v-2.1", "t2v-2.2-a14b", "ti2v-2.2-5b", "i2v-2.2-a14b", "i2v-2.1")
SEED = 5


def some_image() -> NDArray[np.uint8]:
    """Return a first frame of no model's size."""
    return np.random.default_rng(0).integers(0, 256, (50, 70, 3), np.uint8)


def small_request(layout: str, **more: Any) -> VideoRequest:
    """Return a request that says all that a layout takes; its steps go through both experts."""
    two = {"boundary_ratio": 0.75, "guidance_scale_2": 2.5} if "a14b" in layout else {}
    given: dict[str, Any] = {
        "negative_prompt": "blurred",
        "width": 32 if layout.startswith("ti2v") else 48,
        "height": 64,
        "num_frames": 5,
        "image": some_image() if layout.startswith("i2v") else None,
        "parameters": DiffusionParameters(
            num_inference_steps=3, guidance_scale=4.5, flow_shift=2.0, **two
        ),
    }
    return VideoRequest("A cat &amp; a dog, in the  snow", **(given | more))


def official_pipeline(path: Path, request: VideoRequest) -> Any:
    from diffusers import WanImageToVideoPipeline, WanPipeline

    from antiphon.families.wan_video.config import load_config

    kind: Any = WanPipeline if request.image is None else WanImageToVideoPipeline
    pipeline = kind.from_pretrained(str(path), local_files_only=True)
    pipeline.set_progress_bar_config(disable=True)
    given = request.parameters
    if given.flow_shift is not None:
        scheduler = type(pipeline.scheduler)
        pipeline.scheduler = scheduler.from_config(
            pipeline.scheduler.config, flow_shift=given.flow_shift
        )
    if given.boundary_ratio is not None and load_config(path).num_experts == 2:
        pipeline.register_to_config(boundary_ratio=given.boundary_ratio)
    return pipeline


def official_video(path: Path, request: VideoRequest, seed: int = SEED) -> NDArray[np.uint8]:
    """Return the frames that diffusers makes, ``[num_frames, height, width, 3]``."""
    import torch
    from PIL import Image

    given = request.parameters
    pipeline = official_pipeline(path, request)
    options: dict[str, Any] = {
        "guidance_scale": given.guidance_scale,
        "num_inference_steps": given.num_inference_steps,
        "generator": torch.Generator().manual_seed(seed),
        "output_type": "pil",
    }
    if pipeline.config.boundary_ratio is not None:  # it refuses the argument otherwise
        options["guidance_scale_2"] = given.guidance_scale_2
    if request.image is not None:
        options["image"] = Image.fromarray(request.image)
    result = pipeline(
        prompt=request.prompt,
        negative_prompt=request.negative_prompt,
        width=request.width,
        height=request.height,
        num_frames=request.num_frames,
        **options,
    )
    return np.stack([np.asarray(frame) for frame in result.frames[0]])
