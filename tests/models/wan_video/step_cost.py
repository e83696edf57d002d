"""Measures a denoising step against diffusers' own pipeline, both in the same run.

    python -m tests.models.wan_video.step_cost CHECKPOINT [--device cuda] [--size 832x480] ...

On a CPU it counts the processor time of one thread, which other processes do not lengthen; on a GPU
the wall clock, with the device waited for. Rounds of both alternate.
"""

import argparse
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from antiphon.models.registry import checkpoint_family
from antiphon.models.spec import LoadContext
from antiphon.types import DiffusionParameters, VideoRequest
from tests.models.wan_video.official import official_pipeline

Clock = Callable[[], float]


def main() -> None:
    arguments = _arguments()
    context = LoadContext(arguments.checkpoint, device=arguments.device, dtype=arguments.dtype)
    task = checkpoint_family(arguments.checkpoint).tasks["video"]
    prompter = task.prompter.resolve()(context)
    encoder: Any = task.pipeline[0].factory.resolve()(context)
    denoiser: Any = task.pipeline[1].factory.resolve()(context)
    width, height = map(int, arguments.size.split("x"))
    needs_image = prompter.capabilities.needs_image
    request = VideoRequest(
        "A red fox runs through fresh snow",
        width=width,
        height=height,
        num_frames=arguments.num_frames,
        image=np.full((height, width, 3), 128, np.uint8) if needs_image else None,
        parameters=DiffusionParameters(num_inference_steps=arguments.steps, guidance_scale=5.0),
    )
    prompt = prompter.build(request, 1)
    latents = next(encoder.generate(prompt))
    clock = _clock(arguments.device)
    pipeline = official_pipeline(arguments.checkpoint, request)
    pipeline.to(arguments.device, denoiser.dtype)
    pipeline.vae.to(torch.float32)

    def ours(num_requests: int) -> list[float]:
        states = [denoiser.begin(prompt, latents) for _ in range(num_requests)]
        marks = [clock()]
        for _ in range(arguments.steps):
            denoiser.step(states)
            marks.append(clock())
        return _steps(marks)

    batches: dict[str, list[float]] = {"diffusers": []}
    for _ in range(arguments.rounds):
        batches["diffusers"] += _official(pipeline, request, prompt.data, clock)
        for size in arguments.batches:
            batches.setdefault(f"ours, {size}", []).extend(ours(size))
    reference = median(batches["diffusers"])
    for name, steps in batches.items():
        ratio = median(steps) / reference
        sys.stdout.write(f"{name:12} {1000 * median(steps):9.2f} ms a step, ratio {ratio:.3f}\n")


def _official(pipeline: Any, request: VideoRequest, data: Any, clock: Clock) -> list[float]:
    """Return the times of diffusers' steps."""
    marks: list[float] = []

    def mark(*_: Any) -> dict[str, Any]:
        marks.append(clock())
        return {}

    options: dict[str, Any] = {}
    if pipeline.config.boundary_ratio is not None:
        options["guidance_scale_2"] = data.guidance_scale_2
    if request.image is not None:
        from PIL import Image

        options["image"] = Image.fromarray(request.image)
    pipeline(
        prompt=request.prompt,
        width=request.width,
        height=request.height,
        num_frames=request.num_frames,
        num_inference_steps=data.num_inference_steps,
        guidance_scale=data.guidance_scale,
        generator=torch.Generator().manual_seed(1),
        output_type="latent",
        callback_on_step_end=mark,
        callback_on_step_end_tensor_inputs=[],
        **options,
    )
    return _steps(marks)


def _steps(marks: list[float]) -> list[float]:
    """Return the times between marks, but for the first, which warms caches."""
    return [after - before for before, after in pairwise(marks[1:])]


def _clock(device: str) -> Clock:
    if device == "cpu":
        torch.set_num_threads(1)
        return time.thread_time

    def wait_and_read() -> float:
        torch.cuda.synchronize()
        return time.perf_counter()

    return wait_and_read


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--size", default="64x64")
    parser.add_argument("--num-frames", type=int, default=5)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--batches", type=lambda text: [*map(int, text.split(","))], default=[1])
    return parser.parse_args()


if __name__ == "__main__":
    main()
