"""Common parts of images and videos: models, and requests completed before any work.

A completed request has all that its result depends on: a size, every parameter that the model's
family uses, a seed.
"""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import fields, replace
from typing import Any, Generic, Protocol, TypeVar

from antiphon.concurrency import Workers
from antiphon.config.media import ImageSettings, VideoSettings
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
from antiphon.contracts.well_formed import check_members, check_range, read_options
from antiphon.errors import EngineError, InputTooLongError, InvalidRequestError, invalid
from antiphon.pipeline.all_or_nothing import alone, together
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

    def build(self, request: Any, seed: int) -> Prompt:
        """Build the prompt of a completed request; called in a worker thread.

        Raises:
            InvalidRequestError: the request is outside what the checkpoint can do.
        """


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
    @property
    def capabilities(self) -> ImageCapabilities:
        capabilities = self.prompter.capabilities
        assert isinstance(capabilities, ImageCapabilities)
        return capabilities


class VideoModel(PictureModel):
    @property
    def capabilities(self) -> VideoCapabilities:
        capabilities = self.prompter.capabilities
        assert isinstance(capabilities, VideoCapabilities)
        return capabilities


ModelT = TypeVar("ModelT", bound=PictureModel)
PictureT = TypeVar("PictureT", Image, Video)


class PictureService(ModelDirectory[ModelT], Generic[ModelT, PictureRequest, PictureT]):
    """Draws with the served models of one task; a subclass declares what is particular to it.

    Attributes:
        does: Verb of its models for messages, such as "draws images".
        nothing: Message of the error if a model makes nothing.
    """

    task: str
    does: str
    nothing: str
    kind: type[PictureT]
    settings: ImageSettings | VideoSettings

    def __init__(
        self,
        models: Mapping[str, ModelT],
        settings: ImageSettings | VideoSettings,
        metrics: Metrics | None = None,
        others: Mapping[str, str] | None = None,
    ) -> None:
        """Serve ``models`` by the name that requests use; the first one is the default.

        Args:
            others: Tasks of served models that are not among them, by their names.
        """
        super().__init__(models, settings.model_aliases, self.does, others)
        self.settings = settings
        self.metrics = metrics or Metrics()
        self._workers = Workers(f"{self.task}s")

    def completed(self, request: PictureRequest) -> PictureRequest:
        """Return a request with its size, seed and all parameters; raises InvalidRequestError."""
        model, settings = self.model(request.model), self.settings
        request = self._checked(request, model)
        texts = {"prompt": request.prompt, "negative_prompt": request.negative_prompt or ""}
        check_members({**texts, **request.options})
        if not request.prompt.strip():
            raise invalid("prompt", "it is empty")
        for name, text in texts.items():
            if len(text) > (limit := settings.max_prompt_characters):
                raise InputTooLongError(len(text), limit, name)
        if request.negative_prompt and not model.capabilities.negative_prompts:
            raise InvalidRequestError(
                f"The model '{model.name}' has no 'negative_prompt': leave it out.",
                param="negative_prompt",
            )
        check_size(request, model.capabilities, settings.max_pixels)
        check_parameters(request.parameters, model, settings.max_steps)
        read_options(model.task.options, request.options)
        return with_defaults(request, model.prompter)

    def _checked(self, request: PictureRequest, model: ModelT) -> PictureRequest:
        """Check and complete what only requests of this task have."""
        raise NotImplementedError

    def stream(self, request: PictureRequest) -> AsyncGenerator[Progress | PictureT | Ended, None]:
        """Make one picture: progress and previews, then the picture, then one `Ended`.

        The caller closes the stream, which stops the work within one step and frees all that it
        held.

        Raises:
            InvalidRequestError: here, or before the first item; names the field and what is
                allowed.
            OverloadedError: before the first item: too much is under way.
            EngineError: the model failed.
        """
        return alone(self._made(self.completed(request)))

    def several(
        self, requests: Sequence[PictureRequest]
    ) -> AsyncGenerator[tuple[int, Progress | PictureT | Ended], None]:
        """Make pictures at once: each item comes with the number of its request, from 0.

        No item comes before there is room for all of them; the first that fails ends all.

        Raises:
            InvalidRequestError, OverloadedError, EngineError: as of `stream`.
        """
        has_others = len(requests) > 1
        completed = [self.completed(each) for each in requests]
        return together([self._made(each, tells_admission=has_others) for each in completed])

    async def collect(
        self, request: PictureRequest, progress: Callable[[Progress], None] = lambda step: None
    ) -> tuple[PictureT, Ended]:
        """Return one picture, and the end of its stream; raises as `stream` does."""
        picture: PictureT | None = None
        async with aclosing(self.stream(request)) as items:
            async for item in items:
                if isinstance(item, Progress):
                    progress(item)
                elif isinstance(item, self.kind):
                    picture = item
                elif isinstance(item, Ended) and picture is not None:
                    return picture, item
        raise EngineError(self.nothing)

    async def _made(
        self, request: PictureRequest, *, tells_admission: bool = False
    ) -> AsyncGenerator[Progress | PictureT | Ended | Admitted, None]:
        """Stream the items of a completed request; `Admitted` is first, if requested."""
        assert request.seed is not None, "the request is complete"
        model = self.model(request.model)
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
                    elif isinstance(item, Progress | self.kind):
                        stats.see(item)
                        yield item
                    elif isinstance(item, Admitted):
                        yield item

    def _those_that(self, can: Callable[[ModelT], object]) -> str:
        """Return a sentence with the names of the models that can do something."""
        names = [name for name, each in self.models.items() if can(each)]
        return f"These do: {', '.join(names)}." if names else "No served model does."

    def close(self) -> None:
        """Stop the worker threads."""
        self._workers.close()


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
        raise invalid(
            "size",
            f"{width}x{height}. Width and height must be multiples of {multiple}, such as"
            f" {default_width}x{default_height}",
        )
    if width * height > max_pixels:
        raise invalid(
            "size",
            f"{width}x{height} has {width * height} pixels; at most {max_pixels} are allowed",
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
