"""Prompts of families that generate images; without torch."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from antiphon.contracts.picture_types import DiffusionParameters, ImageRequest
from antiphon.contracts.pictures import ImageCapabilities
from antiphon.contracts.prompt import Prompt
from antiphon.diffusion.protocol import DenoisingWork, preview_steps
from antiphon.errors import InvalidRequestError


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagePrompt:
    """A completed request for an image: `Prompt.data` in all stages.

    Attributes:
        negative_prompt: description of what the image must not show.
        num_previews: images to be shown while it forms.
        images: images to be edited, each ``[height, width, 3 or 4]`` of uint8.
        mask: mask of the first image, ``[height, width]``, 255 where it may change.
    """

    prompt: str
    negative_prompt: str | None
    width: int
    height: int
    parameters: DiffusionParameters
    num_previews: int = 0
    images: tuple[NDArray[Any], ...] = ()
    mask: NDArray[Any] | None = None

    @property
    def num_steps(self) -> int:
        assert self.parameters.num_inference_steps is not None
        return self.parameters.num_inference_steps


class ImagePrompter(ABC):
    """Base class of image prompt builders; a family defines capabilities and counts tokens."""

    capabilities: ImageCapabilities

    @abstractmethod
    def count_tokens(self, text: str) -> int:
        """Return how many tokens a text has."""

    def choose_size(self, request: ImageRequest) -> tuple[int, int]:
        """Return the default width and height of a request."""
        return self.capabilities.default_size

    def build(self, request: ImageRequest, seed: int) -> Prompt:
        """Build the prompt of one image; defaults replace omitted fields.

        Raises:
            InvalidRequestError: the request is outside what the checkpoint can do.
        """
        capabilities = self.capabilities
        width, height = self.choose_size(request)
        data = ImagePrompt(
            prompt=request.prompt,
            negative_prompt=request.negative_prompt,
            width=width if request.width is None else request.width,
            height=height if request.height is None else request.height,
            parameters=request.parameters.with_defaults(capabilities.parameters),
            num_previews=request.num_previews,
            images=request.images,
            mask=request.mask,
        )
        self._check(data)
        if data.negative_prompt and not capabilities.negative_prompts:
            raise InvalidRequestError(
                "This model has no 'negative_prompt': leave it out.", param="negative_prompt"
            )
        num_tokens = self._checked_length(data.prompt, "prompt")
        if data.negative_prompt is not None:
            num_tokens += self._checked_length(data.negative_prompt, "negative_prompt")
        return Prompt(data=data, num_tokens=num_tokens, seed=seed)

    def _check(self, data: ImagePrompt) -> None:
        """Refuse a size or a number of steps that no image could have."""
        multiple = self.capabilities.size_multiple
        if min(data.width, data.height) < 1 or data.width % multiple or data.height % multiple:
            raise InvalidRequestError(
                f"Invalid 'size': {data.width}x{data.height}. Width and height must be multiples of"
                f" {multiple}.",
                param="size",
            )
        min_steps = self.capabilities.min_steps
        if data.num_steps < min_steps:
            raise InvalidRequestError(
                f"Invalid 'num_inference_steps': {data.num_steps}. At least {min_steps} are"
                " needed.",
                param="num_inference_steps",
            )

    def _checked_length(self, text: str, param: str) -> int:
        most = self.capabilities.max_prompt_tokens
        num_tokens = self.count_tokens(text)
        if most is not None and num_tokens > most:
            raise InvalidRequestError(
                f"Invalid '{param}': {num_tokens} tokens; this model reads at most {most}.",
                param=param,
                code="string_above_max_length",
            )
        return num_tokens


def sample_image(size_multiple: int, images: tuple[NDArray[Any], ...] = ()) -> ImageRequest:
    """Return a small request for warming up."""
    return ImageRequest(
        "Ready.",
        width=4 * size_multiple,
        height=4 * size_multiple,
        images=images,
        parameters=DiffusionParameters(num_inference_steps=2),
    )


def image_work(
    prompt: Prompt, *, num_positions: int, is_guided: bool, num_bytes: int, batch_key: object
) -> DenoisingWork:
    """Return the estimated work of an image prompt.

    Args:
        prompt: prompt whose data is an `ImagePrompt`.
        num_positions: positions that the transformer reads in a pass.
        is_guided: whether a step takes a second pass, of the negative prompt.
        num_bytes: memory that the request holds.
        batch_key: value that must be equal, beside size and guidance, for requests to be stepped
            together.
    """
    data: ImagePrompt = prompt.data
    return DenoisingWork(
        num_steps=data.num_steps,
        cost=num_positions * (2.0 if is_guided else 1.0),
        num_bytes=num_bytes,
        batch_key=(data.width, data.height, is_guided, batch_key),
        preview_steps=preview_steps(data.num_previews, data.num_steps),
    )
