"""Flags of ``antiphon image`` and ``antiphon video``: a prompt to a file."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from antiphon.cli import completion
from antiphon.cli.flags import ApiKey, Url, flag

_MODEL = flag(
    "A checkpoint's directory, its ORG/NAME on the hub, or a built-in model.",
    autocompletion=completion.models_anywhere,
)
_SIZE = "WIDTHxHEIGHT in pixels; default: the model's own."
_GUIDANCE = "How closely to follow the prompt; default: the model's own."


@dataclass(frozen=True, slots=True)
class ImageFlags:
    """The flags of ``antiphon image``."""

    prompt: Annotated[str, typer.Argument(help="What it shows; - reads it from stdin.")]
    output: Annotated[
        str,
        flag(
            "The file to write: .png, .jpg, .jpeg or .webp; - writes PNG to stdout.",
            True,
            *("--output", "-o"),
        ),
    ] = "image.png"
    model: Annotated[str | None, _MODEL] = None
    url: Url = None
    api_key: ApiKey = None
    size: Annotated[str | None, flag(_SIZE)] = None
    steps: Annotated[int | None, flag("Of denoising; default: the model's own.")] = None
    seed: Annotated[int | None, flag("Repeats the same image.")] = None
    negative_prompt: Annotated[str | None, flag("What it shall not show.")] = None
    guidance_scale: Annotated[float | None, flag(_GUIDANCE)] = None
    image: Annotated[list[Path] | None, flag("An image to edit; may be given several times.")] = (
        None
    )


@dataclass(frozen=True, slots=True)
class VideoFlags:
    """The flags of ``antiphon video``."""

    prompt: Annotated[str, typer.Argument(help="What it shows; - reads it from stdin.")]
    output: Annotated[
        str, flag("The file to write: .mp4; - writes to stdout.", True, "--output", "-o")
    ] = "video.mp4"
    model: Annotated[str | None, _MODEL] = None
    url: Url = None
    api_key: ApiKey = None
    size: Annotated[str | None, flag(_SIZE)] = None
    seconds: Annotated[float | None, flag("Length; default: the model's own.")] = None
    num_frames: Annotated[int | None, flag("Length; overrides --seconds.")] = None
    fps: Annotated[
        int | None,
        flag("Frames a second; default: videos.default_fps of the settings, or of the server."),
    ] = None
    steps: Annotated[int | None, flag("Of denoising; default: the model's own.")] = None
    seed: Annotated[int | None, flag("Repeats the same video.")] = None
    negative_prompt: Annotated[str | None, flag("What it shall not show.")] = None
    guidance_scale: Annotated[float | None, flag(_GUIDANCE)] = None
    image: Annotated[Path | None, flag("An image that it begins with.")] = None
