"""Frozen vocabulary of images and videos: what is asked of models that draw, and what they make."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from antiphon.contracts.sampling import Overrides
from antiphon.contracts.types import new_request_id

if TYPE_CHECKING:  # so that importing the vocabulary stays quick
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffusionParameters(Overrides):
    """How a denoising stage works on a request. ``None`` means the family's default.

    Attributes:
        guidance_scale: Adherence to the prompt; of a distilled model, one of its inputs.
        true_cfg_scale: Classifier-free guidance, where ``guidance_scale`` is such an input.
        guidance_scale_2: Guidance of the second expert, for low noise.
        boundary_ratio: Share of the schedule at which the second expert takes over.
    """

    num_inference_steps: int | None = None
    guidance_scale: float | None = None
    true_cfg_scale: float | None = None
    guidance_scale_2: float | None = None
    boundary_ratio: float | None = None
    flow_shift: float | None = None


@dataclass(frozen=True, slots=True)
class PictureRequest:
    """One image or video to be made.

    Attributes:
        seed: makes it repeatable; ``None`` draws one.
        negative_prompt: Description of what to avoid.
        model: a served model's name; ``None`` is the default model.
        width: Width in pixels; ``None`` is the model's default.
        height: Height in pixels; ``None`` is the model's default.
        options: family-only fields, validated by the family's options model.
        is_live: Whether a client waits for it; otherwise its priority is offline.
        id: names the request in logs, metrics and the engine.
    """

    prompt: str
    seed: int | None = None
    negative_prompt: str | None = None
    model: str | None = None
    width: int | None = None
    height: int | None = None
    parameters: DiffusionParameters = DiffusionParameters()
    options: Mapping[str, Any] = field(default_factory=dict)
    is_live: bool = True
    id: str = field(default_factory=new_request_id)


@dataclass(frozen=True, slots=True)
class ImageRequest(PictureRequest):
    """One image to be drawn.

    Attributes:
        images: Images to edit, each ``[height, width, 3 or 4]`` of uint8; empty: it is made anew.
        mask: ``[height, width]`` of the first image, 255 where it may change; ``None``: anywhere.
        num_previews: images to be shown while it forms, evenly over the steps.
    """

    images: "tuple[NDArray[np.uint8], ...]" = ()
    mask: "NDArray[np.uint8] | None" = None
    num_previews: int = 0


@dataclass(frozen=True, slots=True)
class VideoRequest(PictureRequest):
    """One video to be made.

    Attributes:
        num_frames: ``None`` is the model's default.
        fps: frames a second at which it is played.
        image: the first frame, ``[height, width, 3]`` of uint8; ``None``: from the prompt alone.
    """

    num_frames: int | None = None
    fps: int = 24
    image: "NDArray[np.uint8] | None" = None


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a stage is with a request.

    Attributes:
        step: steps that are done, 1 to ``num_steps``; it grows, and a slow reader may miss some.
    """

    step: int
    num_steps: int


@dataclass(frozen=True, slots=True)
class Image:
    """A whole image.

    Attributes:
        pixels: shape ``[height, width, channels]``; of 1, 3 or 4 channels.
        preview_index: Index of a preview, from 0; ``None``: it is the final image.
    """

    pixels: "NDArray[np.uint8]"
    preview_index: int | None = None


@dataclass(frozen=True, slots=True)
class Video:
    """A whole video; ``frames``: shape ``[num_frames, height, width, 3]``."""

    frames: "NDArray[np.uint8]"
    fps: int
