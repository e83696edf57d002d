"""Declarations of tasks that draw, as data."""

from dataclasses import dataclass

from antiphon.contracts.family import Capabilities
from antiphon.contracts.picture_types import DiffusionParameters, ImageRequest, VideoRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureCapabilities(Capabilities):
    """Capabilities of a loaded model in a task that draws.

    Attributes:
        parameters: defaults of denoising, every field set that the family uses; a request that
            sets another field is refused.
        size_multiple: width and height must be multiples of it, in pixels.
        default_size: ``(width, height)`` unless the request has its own.
        max_prompt_tokens: Tokens of a prompt; longer ones are refused. ``None``: any length.
        min_steps: Fewest denoising steps of the family's schedule.
    """

    parameters: DiffusionParameters
    size_multiple: int
    default_size: tuple[int, int]
    max_prompt_tokens: int | None = None
    negative_prompts: bool = True
    min_steps: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageCapabilities(PictureCapabilities):
    """Capabilities of a loaded model in the task of images.

    Attributes:
        max_images: Images that a request may bring to be edited; 0: it cannot edit.
        needs_image: whether it can only edit.
        masks: Whether a mask may mark the region that changes.
        alpha: whether its images may be transparent.
    """

    sample_request: ImageRequest
    max_images: int = 0
    needs_image: bool = False
    masks: bool = False
    alpha: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoCapabilities(PictureCapabilities):
    """Capabilities of a loaded model in the task of videos.

    Attributes:
        default_num_frames: Number of frames unless the request has its own.
        frame_multiple: ``num_frames`` is a multiple of it, plus 1.
        takes_image: whether a request may bring the first frame.
        needs_image: whether it must.
    """

    sample_request: VideoRequest
    default_num_frames: int
    frame_multiple: int = 4
    takes_image: bool = False
    needs_image: bool = False
