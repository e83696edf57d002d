"""Common parts of images and videos: models, and requests completed before any work.

A completed request has all that its result depends on: a size, every parameter that the model's
family uses, a seed.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import fields, replace
from typing import Any, Generic, Protocol, TypeVar

from antiphon.concurrency import Workers
from antiphon.config.media import ImageSettings, VideoSettings
from antiphon.contracts.options import read_options
from antiphon.contracts.picture_types import (
    DiffusionParameters,
    Image,
    ImageRequest,
    Progress,
    Video,
    VideoRequest,
)
from antiphon.contracts.pictures import ImageCapabilities, PictureCapabilities, VideoCapabilities
from antiphon.contracts.prompt import Admitted, Prompt, SupportsDefaultSizes
from antiphon.contracts.types import Ended, Usage, new_seed
from antiphon.contracts.well_formed import check_members, check_range
from antiphon.errors import InvalidRequestError
from antiphon.pipeline.model_directory import ModelDirectory
from antiphon.pipeline.runtime import LoadedTask
from antiphon.stages.base import StageRequest
from antiphon.telemetry.metrics import Metrics

IMAGE, VIDEO = "image", "video"

PictureRequest = TypeVar("PictureRequest", ImageRequest, VideoRequest)

_RANGES: Mapping[str, tuple[float, float]] = {
    "guidance_scale": (0.0, 100.0),
    "true_cfg_scale": (0.0, 100.0),
    "guidance_scale_2": (0.0, 100.0),
    "boundary_ratio": (0.0, 1.0),
    "flow_shift": (0.01, 100.0),  # of 0 the schedule would be 0 / 0
}
"""Of parameters other than the number of steps, both ends allowed."""


class PicturePrompter(Protocol):
    """Turns completed requests for images or videos into prompts; pure."""

    @property
    def capabilities(self) -> PictureCapabilities:
        """What the loaded checkpoint can do."""
        ...

    def build(self, request: Any, seed: int) -> Prompt:
        """Build the prompt of a completed request; called in a worker thread.

        Raises:
            InvalidRequestError: the request is outside what the checkpoint can do.
        """
        ...


class PictureModel(LoadedTask):
    """A model that is ready to draw; `sample_prompt` completes the sample request."""

    prompter: PicturePrompter

    @property
    def capabilities(self) -> PictureCapabilities:
        """What the loaded checkpoint can do."""
        return self.prompter.capabilities

    def sample_prompt(self) -> Prompt:
        request = with_defaults(self.capabilities.sample_request, self.prompter)
        return self.prompter.build(request, 0)


class ImageModel(PictureModel):
    """A model that is ready to draw images."""

    @property
    def capabilities(self) -> ImageCapabilities:
        capabilities = self.prompter.capabilities
        assert isinstance(capabilities, ImageCapabilities)
        return capabilities


class VideoModel(PictureModel):
    """A model that is ready to make videos."""

    @property
    def capabilities(self) -> VideoCapabilities:
        capabilities = self.prompter.capabilities
        assert isinstance(capabilities, VideoCapabilities)
        return capabilities


ModelT = TypeVar("ModelT", bound=PictureModel)
PictureT = TypeVar("PictureT", Image, Video)


class PictureService(Generic[ModelT]):
    """Draws with the served models of one task.

    Attributes:
        task: its name.
        does: Verb of its models for messages, such as "draws images".
    """

    task: str
    does: str

    def __init__(
        self,
        models: Mapping[str, ModelT],
        model_aliases: Mapping[str, str],
        metrics: Metrics | None,
        others: Mapping[str, str] | None,
    ) -> None:
        """Serve ``models`` by the name that requests use; the first one is the default.

        Args:
            models: possibly none.
            model_aliases: further names of theirs.
            metrics: count the requests.
            others: Tasks of served models that are not among them, by their names.
        """
        self.models = models
        self.metrics = metrics or Metrics()
        self._directory = ModelDirectory(models, model_aliases, self.does, others)
        self._workers = Workers(f"{self.task}s")

    def model(self, name: str | None) -> ModelT:
        """Return the served model of this name or alias.

        Raises:
            UnknownModelError: there is none.
            UnservedTaskError: there is, but it has another task.
        """
        return self._directory.find(name)

    async def made(
        self,
        request: ImageRequest | VideoRequest,
        model: ModelT,
        kind: type[PictureT],
        *,
        tells_admission: bool = False,
    ) -> AsyncGenerator[Progress | PictureT | Ended | Admitted, None]:
        """Stream what a model makes of a completed request: items of ``kind``, and its end.

        Args:
            request: Request to complete.
            model: Model that makes it.
            kind: Kind of result.
            tells_admission: whether `Admitted` comes first.
        """
        assert request.seed is not None, "the request is complete"
        with self.metrics.observe_picture(self.task, model.name) as stats:
            prompt = await self._workers.run(model.prompter.build, request, request.seed)
            stage_request = StageRequest(
                request.id, prompt, is_live=request.is_live, tells_admission=tells_admission
            )
            async with aclosing(model.open(stage_request)) as items:
                async for item in items:
                    if isinstance(item, Ended):
                        if not item.usage.total_tokens:
                            item = replace(item, usage=Usage(prompt.num_tokens))
                        stats.end(item)
                        yield item
                    elif isinstance(item, Progress | kind):
                        stats.see(item)
                        yield item
                    elif isinstance(item, Admitted):
                        yield item

    def close(self) -> None:
        """Stop the worker threads."""
        self._workers.close()


def completed(
    request: PictureRequest, model: PictureModel, settings: ImageSettings | VideoSettings
) -> PictureRequest:
    """Return a request with a size, a seed and all parameters.

    Raises:
        InvalidRequestError: the model or the settings do not allow it; names the field and what is
            allowed.
    """
    texts = {"prompt": request.prompt, "negative_prompt": request.negative_prompt or ""}
    check_members({**texts, **request.options})
    if not request.prompt.strip():
        raise InvalidRequestError("Invalid 'prompt': it is empty.", param="prompt")
    for name, text in texts.items():
        check_length(text, settings.max_prompt_characters, name)
    if request.negative_prompt and not model.capabilities.negative_prompts:
        raise InvalidRequestError(
            f"The model '{model.name}' has no 'negative_prompt': leave it out.",
            param="negative_prompt",
        )
    check_size(request, model.capabilities, settings.max_pixels)
    check_parameters(request.parameters, model, settings.max_steps)
    read_options(model.task.options, request.options)
    return with_defaults(request, model.prompter)


def with_defaults(request: PictureRequest, prompter: PicturePrompter) -> PictureRequest:
    """Fill what a request leaves open; nothing is checked."""
    capabilities = prompter.capabilities
    width, height = capabilities.default_size
    if isinstance(prompter, SupportsDefaultSizes):
        width, height = prompter.choose_size(request)
    return replace(
        request,
        width=request.width or width,
        height=request.height or height,
        seed=new_seed() if request.seed is None else request.seed,
        parameters=request.parameters.with_defaults(capabilities.parameters),
    )


def check_length(text: str, max_characters: int, param: str) -> None:
    """Refuse a text that is too long."""
    if len(text) > max_characters:
        raise InvalidRequestError(
            f"Invalid '{param}': {len(text)} characters; at most {max_characters} are allowed.",
            param=param,
            code="string_above_max_length",
        )


def check_size(
    request: ImageRequest | VideoRequest, capabilities: PictureCapabilities, max_pixels: int
) -> None:
    """Refuse a size that the model cannot make, or that has more than ``max_pixels``."""
    if (request.width is None) != (request.height is None):
        given, missing = ("width", "height") if request.height is None else ("height", "width")
        raise InvalidRequestError(f"'{given}' is given without '{missing}'.", param=missing)
    if request.width is None or request.height is None:
        return
    multiple = capabilities.size_multiple
    width, height = request.width, request.height
    if min(width, height) < multiple or width % multiple or height % multiple:
        default_width, default_height = capabilities.default_size
        raise InvalidRequestError(
            f"Invalid 'size': {width}x{height}. Width and height must be multiples of {multiple},"
            f" such as {default_width}x{default_height}.",
            param="size",
        )
    if width * height > max_pixels:
        raise InvalidRequestError(
            f"Invalid 'size': {width}x{height} has {width * height} pixels; at most {max_pixels}"
            " are allowed.",
            param="size",
        )


def check_parameters(parameters: DiffusionParameters, model: PictureModel, max_steps: int) -> None:
    """Refuse parameters that the model's family does not use, and values outside their range."""
    used = [
        each.name
        for each in fields(DiffusionParameters)
        if getattr(model.capabilities.parameters, each.name) is not None
    ]
    for name, value in (
        (each.name, getattr(parameters, each.name)) for each in fields(DiffusionParameters)
    ):
        if value is None:
            continue
        if name not in used:
            raise InvalidRequestError(
                f"The model '{model.name}' has no '{name}': leave it out. Its parameters are:"
                f" {', '.join(used) or 'none'}.",
                param=name,
            )
        low, high = _RANGES.get(name, (model.capabilities.min_steps, max_steps))
        check_range(name, value, low, high)
