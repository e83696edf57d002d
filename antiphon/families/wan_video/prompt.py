"""Builds the prompts of videos: what every stage of a request reads."""

import html
import math
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antiphon.contracts.family import LoadContext
from antiphon.contracts.picture_types import DiffusionParameters, VideoRequest
from antiphon.contracts.pictures import VideoCapabilities
from antiphon.contracts.prompt import Prompt
from antiphon.diffusion.tokenizer import load_tokenizer
from antiphon.errors import InvalidRequestError, ModelLoadError
from antiphon.families.wan_video.config import WanConfig, load_config

MAX_PROMPT_TOKENS = 512
"""Positions of text that the transformer attends to; diffusers cuts off the rest."""

_NUM_STEPS = 50
_GUIDANCE_SCALE = 5.0
_GUIDANCE_SCALE_2 = 1.0  # as in NVIDIA Dynamo
_SIZE, _NUM_FRAMES = (832, 480), 81
_MAX_ASPECT = 4.0  # of a size that is chosen after an image
_SIZE_5B, _NUM_FRAMES_5B = (1280, 704), 121


@dataclass(frozen=True, slots=True, kw_only=True)
class WanPrompt:
    """A complete request.

    Attributes:
        negative_ids: tokens of what the video shall not show; empty without guidance.
        guidance_scale: above 1: classifier-free guidance.
        boundary_ratio: share of the schedule at which the second expert takes over; ``None``: there
            is one expert.
        image: the first frame, ``[height, width, 3]`` of uint8, of any size.
    """

    prompt_ids: tuple[int, ...]
    negative_ids: tuple[int, ...]
    width: int
    height: int
    num_frames: int
    fps: int
    num_inference_steps: int
    guidance_scale: float
    guidance_scale_2: float
    boundary_ratio: float | None
    flow_shift: float
    image: NDArray[np.uint8] | None

    @property
    def is_guided(self) -> bool:
        """Whether what the video shall not show is computed too."""
        return self.guidance_scale > 1.0


class WanPrompter:
    """Completes requests, checks them, and turns their text into tokens."""

    def __init__(self, context: LoadContext) -> None:
        """Read a checkpoint's configuration and tokenizer; raises ModelLoadError."""
        self._config = load_config(context.checkpoint)
        self._tokenizer: Any = load_tokenizer(context.checkpoint / "tokenizer")
        self.capabilities = capabilities_of(self._config, context)

    def build(self, request: VideoRequest, seed: int) -> Prompt:
        """Build the prompt of one video; raises InvalidRequestError."""
        width, height = self.choose_size(request)
        usual, num_frames = self.capabilities.default_num_frames, request.num_frames
        num_frames = usual if num_frames is None else num_frames
        self._check(request, width, height, num_frames)
        given = request.parameters.with_defaults(self.capabilities.parameters)
        assert given.num_inference_steps is not None
        assert given.guidance_scale is not None
        assert given.flow_shift is not None
        has_two, scale_2 = self._config.num_experts == 2, given.guidance_scale_2
        prompt_ids, negative_ids = self._tokens(request.prompt, "prompt"), tuple[int, ...]()
        if given.guidance_scale > 1.0:
            negative_ids = self._tokens(request.negative_prompt or "", "negative_prompt")
        data = WanPrompt(
            prompt_ids=prompt_ids,
            negative_ids=negative_ids,
            width=width,
            height=height,
            num_frames=num_frames,
            fps=request.fps,
            num_inference_steps=given.num_inference_steps,
            guidance_scale=given.guidance_scale,
            guidance_scale_2=given.guidance_scale if scale_2 is None else scale_2,
            boundary_ratio=given.boundary_ratio if has_two else None,
            flow_shift=given.flow_shift,
            image=request.image,
        )
        return Prompt(data=data, num_tokens=len(prompt_ids) + len(negative_ids), seed=seed)

    def choose_size(self, request: VideoRequest) -> tuple[int, int]:
        """Return width and height; default: the size with the first frame's aspect ratio."""
        width, height = self.capabilities.default_size
        if request.width is None and request.height is None and request.image is not None:
            multiple = self.capabilities.size_multiple
            aspect = request.image.shape[0] / request.image.shape[1]
            aspect = min(max(aspect, 1 / _MAX_ASPECT), _MAX_ASPECT)
            area = width * height
            height = max(1, round(math.sqrt(area * aspect)) // multiple) * multiple
            width = max(1, round(math.sqrt(area / aspect)) // multiple) * multiple
        return (
            width if request.width is None else request.width,
            height if request.height is None else request.height,
        )

    def _check(self, request: VideoRequest, width: int, height: int, num_frames: int) -> None:
        multiple = self.capabilities.size_multiple
        if min(width, height) < multiple or width % multiple or height % multiple:
            nearest = [_nearest(value, multiple, multiple) for value in (width, height)]
            raise InvalidRequestError(
                f"Invalid 'size': {width}x{height}. Width and height must be multiples of"
                f" {multiple}; the nearest is {nearest[0]}x{nearest[1]}.",
                param="size",
            )
        multiple = self.capabilities.frame_multiple
        if num_frames < 1 or (num_frames - 1) % multiple:
            raise InvalidRequestError(
                f"Invalid 'num_frames': {num_frames}; it must be a multiple of {multiple}, plus 1;"
                f" the nearest is {_nearest(num_frames - 1, multiple, 0) + 1}.",
                param="num_frames",
            )
        if request.image is None and self.capabilities.needs_image:
            raise InvalidRequestError(
                "This model animates an image: give 'input_reference'.", param="input_reference"
            )
        if request.image is not None and not self.capabilities.takes_image:
            raise InvalidRequestError(
                "This model makes videos from text alone: leave out 'input_reference'.",
                param="input_reference",
            )

    def _tokens(self, text: str, param: str) -> tuple[int, ...]:
        ids = tuple(int(token) for token in self._tokenizer(clean_prompt(text)).input_ids)
        if len(ids) > MAX_PROMPT_TOKENS:
            raise InvalidRequestError(
                f"Invalid '{param}': {len(ids)} tokens; at most {MAX_PROMPT_TOKENS} are allowed.",
                param=param,
                code="string_above_max_length",
            )
        return ids


def capabilities_of(config: WanConfig, context: LoadContext) -> VideoCapabilities:
    """Return the capabilities of a checkpoint with these settings; raises ModelLoadError."""
    settings, has_two = context.diffusion, config.num_experts == 2
    if settings.boundary_ratio is not None and not has_two:
        raise ModelLoadError(
            f"{config.path}: 'boundary_ratio' is for models of two experts; this one has one."
        )
    size, num_frames = _SIZE, _NUM_FRAMES
    if config.expand_timesteps:
        size, num_frames = _SIZE_5B, _NUM_FRAMES_5B
    ratio = settings.boundary_ratio
    parameters = DiffusionParameters(
        num_inference_steps=_NUM_STEPS,
        guidance_scale=_GUIDANCE_SCALE,
        guidance_scale_2=_GUIDANCE_SCALE_2 if has_two else None,
        boundary_ratio=config.boundary_ratio if ratio is None else ratio,
        flow_shift=settings.flow_shift or config.flow_shift,
    )
    return VideoCapabilities(
        sample_request=_sample_request(config),
        parameters=parameters,
        size_multiple=config.size_multiple,
        default_size=size,
        max_prompt_tokens=MAX_PROMPT_TOKENS,
        default_num_frames=num_frames,
        frame_multiple=config.vae.scale_factor_temporal,
        takes_image=config.takes_image,
        needs_image=config.needs_image,
    )


def _sample_request(config: WanConfig) -> VideoRequest:
    """Return a small request; its steps go through both experts."""
    side = 2 * config.size_multiple
    grey = np.full((side, side, 3), 128, np.uint8) if config.needs_image else None
    return VideoRequest(
        "Ready.",
        seed=0,
        width=side,
        height=side,
        num_frames=config.vae.scale_factor_temporal + 1,
        image=grey,
        parameters=DiffusionParameters(num_inference_steps=2),
    )


def _nearest(value: int, multiple: int, minimum: int) -> int:
    return max(minimum, round(value / multiple) * multiple)


def clean_prompt(text: str) -> str:
    """Return a prompt as the model reads it.

    Broken encodings are mended and curly quotes made straight (ftfy), entities written out, runs of
    white space are one space: as in training.
    """
    ftfy: Any = import_module("ftfy")
    regex: Any = import_module("regex")  # its white space is not that of the standard library
    text = html.unescape(html.unescape(ftfy.fix_text(text))).strip()
    return str(regex.sub(r"\s+", " ", text)).strip()
