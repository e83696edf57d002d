"""Image and video generation into a file or a pipe, with progress on stderr."""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from rich.console import Console

from antiphon.cli.picture_flags import ImageFlags, VideoFlags
from antiphon.cli.progress import shown_progress
from antiphon.cli.speak import STDOUT, loaded, opened
from antiphon.config.sources import load_settings
from antiphon.contracts.picture_types import (
    DiffusionParameters,
    ImageRequest,
    Progress,
    VideoRequest,
)
from antiphon.errors import AntiphonError, InvalidRequestError
from antiphon.media.image_codec import ImageFormat, Pixels, check_installed, decode_image, opaque
from antiphon.media.results import (
    ImageResult,
    VideoResult,
    check_video_suffix,
    image_format,
)
from antiphon.offline import Antiphon
from antiphon.pipeline.whole_results import StepProgress

R = TypeVar("R", ImageResult, VideoResult)


def draw_image(flags: ImageFlags) -> None:
    """Load a model and draw one image.

    Raises:
        AntiphonError: nothing was drawn, or the file cannot be written.
    """
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

    def draw(antiphon: Antiphon, progress: StepProgress) -> ImageResult:
        return antiphon.image(request, progress)

    target = _Target(flags.output, "image")
    image, elapsed_s = _drawn(flags.model, target, draw, lambda image: image.encoded(format))
    height, width, _ = image.pixels.shape
    _say(flags.output, f"{width}x{height}, seed {image.seed}, in {elapsed_s:.1f} s")


def make_video(flags: VideoFlags) -> None:
    """Load a model and make one video.

    Raises:
        AntiphonError: nothing was made, or the file cannot be written.
    """
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

    def make(antiphon: Antiphon, progress: StepProgress) -> VideoResult:
        return antiphon.video(request, progress)

    target = _Target(flags.output, "video")
    video, elapsed_s = _drawn(flags.model, target, make, VideoResult.encoded)
    _, height, width, _ = video.frames.shape
    length = f"{len(video.frames)} frames, {video.duration_s:.2f} s"
    _say(flags.output, f"{width}x{height}, {length}, seed {video.seed}, in {elapsed_s:.1f} s")


@dataclass(frozen=True, slots=True)
class _Target:
    """Where what is drawn goes, and what it is: a modality of ``server.output_modalities``."""

    output: str
    modality: str


def _drawn(
    model: str | None,
    target: _Target,
    draw: Callable[[Antiphon, StepProgress], R],
    encode: Callable[[R], bytes],
) -> tuple[R, float]:
    """Generate and write the output; return it, and the seconds without loading."""
    output = target.output
    if output == STDOUT and sys.stdout.isatty():
        raise InvalidRequestError("stdout is a terminal. Redirect it, or name a file with -o.")
    try:
        # First, since a file that cannot be written should be known before minutes of work.
        with opened(output) as file, loaded(model, target.modality, _console()) as antiphon:
            began_s = time.perf_counter()
            with shown_progress("drawing", _write_line) as show:

                def progress(step: Progress) -> None:
                    show("step", step.step, step.num_steps)

                result = draw(antiphon, progress)
            elapsed_s = time.perf_counter() - began_s
            file.write(encode(result))
    except OSError as error:
        raise AntiphonError(f"Cannot write {output}: {error.strerror or error}.") from error
    return result, elapsed_s


def _console() -> Console:
    return Console(stderr=True, highlight=False, soft_wrap=True)


def _write_line(line: str) -> None:
    _console().print(line, markup=False)


def _say(output: str, text: str) -> None:
    _write_line(f"{'stdout' if output == STDOUT else output}: {text}")


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
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InvalidRequestError(f"Cannot read {path}: {error.strerror or error}.") from error
    return decode_image(content, max_pixels=max_pixels)
