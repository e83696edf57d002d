"""Image and video generation into a file or a pipe, with progress on stderr."""

import base64
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeAlias

from rich.console import Console

from antiphon.cli.picture_flags import ImageFlags, VideoFlags
from antiphon.cli.progress import shown_progress
from antiphon.cli.remote import RemoteServer, upload_content
from antiphon.cli.remote_tasks import ShowSteps, remote_image, remote_video
from antiphon.cli.speak import STDOUT, ResultSource, loaded, opened, writing_to
from antiphon.config.sources import load_settings
from antiphon.contracts.picture_types import (
    DiffusionParameters,
    ImageRequest,
    Progress,
    VideoRequest,
)
from antiphon.errors import InvalidRequestError
from antiphon.media.image_codec import ImageFormat, Pixels, check_installed, decode_image, opaque
from antiphon.media.results import check_video_suffix, image_format
from antiphon.offline import Antiphon
from antiphon.pipeline.whole_results import StepProgress

Drawn: TypeAlias = tuple[bytes, str]
"""A file, and what it is, for people."""


def draw_image(flags: ImageFlags) -> None:
    """Draw one image, with a model in this process or a server; raises AntiphonError."""
    check_installed()
    format = ImageFormat.PNG if flags.output == STDOUT else image_format(flags.output)
    settings = load_settings().images
    width, height = _size(flags.size)
    request = ImageRequest(
        prompt=_prompt(flags.prompt),
        seed=flags.seed,
        negative_prompt=flags.negative_prompt,
        width=width,
        height=height,
        images=tuple(_read(path, settings.max_input_pixels) for path in flags.image or ()),
        parameters=_parameters(flags.steps, flags.guidance_scale),
    )

    def draw(antiphon: Antiphon, progress: StepProgress) -> Drawn:
        image = antiphon.image(request, progress)
        height, width, _ = image.pixels.shape
        return image.encoded(format), f"{width}x{height}, seed {image.seed}"

    def ask(server: RemoteServer, show: ShowSteps) -> Drawn:
        images = [{"image_url": _data_url(path)} for path in flags.image or ()]
        body = {**_common(flags), "output_format": format, "images": images or None}
        return remote_image(server, body, show)

    _write(flags, "image", draw, ask)


def make_video(flags: VideoFlags) -> None:
    """Make one video, with a model in this process or a server; raises AntiphonError."""
    if flags.output != STDOUT:
        check_video_suffix(flags.output)
    settings = load_settings().videos
    fps = flags.fps or settings.default_fps
    num_frames = flags.num_frames
    if num_frames is None and flags.seconds is not None:
        if not flags.seconds > 0:
            raise InvalidRequestError(
                f"Invalid --seconds: {flags.seconds:g}. It must be more than 0.", param="seconds"
            )
        num_frames = max(1, round(flags.seconds * fps))
    width, height = _size(flags.size)
    image = None if flags.image is None else _read(flags.image, settings.max_input_pixels)
    request = VideoRequest(
        prompt=_prompt(flags.prompt),
        seed=flags.seed,
        negative_prompt=flags.negative_prompt,
        width=width,
        height=height,
        num_frames=num_frames,
        fps=fps,
        image=None if image is None else opaque(image),
        parameters=_parameters(flags.steps, flags.guidance_scale),
    )

    def make(antiphon: Antiphon, progress: StepProgress) -> Drawn:
        video = antiphon.video(request, progress)
        _, height, width, _ = video.frames.shape
        length = f"{len(video.frames)} frames, {video.duration_s:.2f} s"
        return video.encoded(), f"{width}x{height}, {length}, seed {video.seed}"

    def ask(server: RemoteServer, show: ShowSteps) -> Drawn:
        body = {
            **_common(flags),
            "seconds": flags.seconds,
            "num_frames": flags.num_frames,
            "fps": flags.fps,
            "input_reference": None if flags.image is None else _data_url(flags.image),
        }
        return remote_video(server, body, show)

    _write(flags, "video", make, ask)


def _common(flags: ImageFlags | VideoFlags) -> dict[str, Any]:
    return {
        "prompt": _prompt(flags.prompt),
        "model": flags.model,
        "size": flags.size,
        "num_inference_steps": flags.steps,
        "seed": flags.seed,
        "negative_prompt": flags.negative_prompt,
        "guidance_scale": flags.guidance_scale,
    }


def _write(
    flags: ImageFlags | VideoFlags,
    modality: str,
    draw: Callable[[Antiphon, StepProgress], Drawn],
    ask: Callable[[RemoteServer, ShowSteps], Drawn],
) -> None:
    """Generate the output and write it.

    Args:
        modality: kind of output, of ``server.output_modalities``.
    """
    output, server = flags.output, ResultSource(flags.model, flags.url, flags.api_key).server
    # Opened first, since a file that cannot be written should be known before minutes of work.
    with writing_to(output) as target, opened(output) as file, ExitStack() as stack:
        if server is None:
            antiphon = stack.enter_context(loaded(flags.model, modality, _console()))
        began_s = time.perf_counter()
        with shown_progress("drawing", _write_line) as show:

            def show_steps(num_done: int, num_steps: int) -> None:
                show("step", num_done, num_steps)

            def progress(step: Progress) -> None:
                show_steps(step.step, step.num_steps)

            if server is None:
                content, facts = draw(antiphon, progress)
            else:
                content, facts = ask(server, show_steps)
        elapsed_s = time.perf_counter() - began_s
        file.write(content)
    _write_line(f"{target}: {facts}, in {elapsed_s:.1f} s")


def _console() -> Console:
    return Console(stderr=True, highlight=False, soft_wrap=True)


def _write_line(line: str) -> None:
    _console().print(line, markup=False)


def _prompt(text: str) -> str:
    return sys.stdin.read().strip() if text == "-" else text


def _size(text: str | None) -> tuple[int | None, int | None]:
    """Return width and height of ``WxH``; raises InvalidRequestError if it is something else."""
    if text is None:
        return None, None
    width, _, height = text.lower().partition("x")
    if not (width.isascii() and width.isdigit() and height.isascii() and height.isdigit()):
        raise InvalidRequestError(
            f"Invalid --size: '{text}'. It must be WIDTHxHEIGHT, such as 832x480.", param="size"
        )
    return int(width), int(height)


def _parameters(num_steps: int | None, guidance_scale: float | None) -> DiffusionParameters:
    return DiffusionParameters(num_inference_steps=num_steps, guidance_scale=guidance_scale)


def _read(path: Path, max_pixels: int) -> Pixels:
    """Return the pixels of a file; raises InvalidRequestError if it cannot be read."""
    check_installed()
    return decode_image(upload_content(path), max_pixels=max_pixels)


def _data_url(path: Path) -> str:
    return f"data:;base64,{base64.b64encode(upload_content(path)).decode()}"
