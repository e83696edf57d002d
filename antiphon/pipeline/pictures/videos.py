"""Makes videos: requests are checked and completed, prompts built, stages opened."""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import TypeAlias

from antiphon.config.media import VideoSettings
from antiphon.contracts.picture_types import Progress, Video, VideoRequest
from antiphon.contracts.pictures import VideoCapabilities
from antiphon.contracts.types import Ended
from antiphon.errors import EngineError, InvalidRequestError
from antiphon.pipeline.all_or_nothing import alone
from antiphon.pipeline.pictures.service import VIDEO, PictureService, VideoModel, completed
from antiphon.telemetry.metrics import Metrics

VideoItem: TypeAlias = Progress | Video | Ended
VideoStream: TypeAlias = AsyncGenerator[VideoItem, None]
"""Progress, then the video, then one `Ended`; the caller closes it."""

INPUT_REFERENCE = "input_reference"
"""The field of requests that brings the first frame."""


class Videos(PictureService[VideoModel]):
    """Makes videos with the served models."""

    task = VIDEO
    does = "makes videos"

    def __init__(
        self,
        models: Mapping[str, VideoModel],
        settings: VideoSettings,
        metrics: Metrics | None = None,
        others: Mapping[str, str] | None = None,
    ) -> None:
        """Serve ``models`` by the name that requests use; the first one is the default.

        Args:
            models: possibly none.
            settings: Settings of the video API.
            metrics: count the requests.
            others: Tasks of served models that make no videos, by their names.
        """
        super().__init__(models, settings.model_aliases, metrics, others)
        self.settings = settings

    def completed(self, request: VideoRequest) -> VideoRequest:
        """Return a request with its size, its number of frames, its seed and all parameters.

        A number of frames that the model cannot make is brought to one that it can, as diffusers
        does it: where it makes 4n + 1, 96 become 97 and 80 become 81.

        Raises:
            InvalidRequestError: its model cannot make it; names the field and what is allowed.
        """
        model = self.model(request.model)
        capabilities, settings = model.capabilities, self.settings
        num_frames = possible_frames(
            capabilities.default_num_frames if request.num_frames is None else request.num_frames,
            capabilities,
        )
        for name, value, most in (
            ("fps", request.fps, settings.max_fps),
            ("num_frames", num_frames, settings.max_frames),
        ):
            if not 1 <= value <= most:
                meaning = " (seconds x fps)" if name == "num_frames" else ""
                raise InvalidRequestError(
                    f"Invalid '{name}'{meaning}: {value}. Allowed: 1 to {most}.", param=name
                )
        return completed(replace(request, num_frames=num_frames), model, settings)

    def stream(self, request: VideoRequest) -> VideoStream:
        """Make one video.

        Closing the stream stops the work within one step and frees all that it held.

        Raises:
            InvalidRequestError: here, or before the first item; names the field and what is
                allowed.
            OverloadedError: before the first item: too much is under way.
            EngineError: the model failed.
        """
        self.check_image(request, has_image=request.image is not None)
        return alone(self.made(self.completed(request), self.model(request.model), Video))

    def check_image(self, request: VideoRequest, *, has_image: bool) -> None:
        """Refuse an image that the model cannot begin with, and none where it needs one.

        Args:
            request: possibly still without its image.
            has_image: whether it has one, or will have.

        Raises:
            InvalidRequestError: it has one, and must not, or the reverse.
        """
        model = self.model(request.model)
        capabilities = model.capabilities
        if capabilities.needs_image and not has_image:
            raise InvalidRequestError(
                f"The model '{model.name}' makes videos of images: send the first frame in"
                f" '{INPUT_REFERENCE}'.",
                param=INPUT_REFERENCE,
            )
        if has_image and not capabilities.takes_image:
            names = [name for name, each in self.models.items() if each.capabilities.takes_image]
            others = f"These do: {', '.join(names)}." if names else "No served model does."
            raise InvalidRequestError(
                f"The model '{model.name}' takes no image. {others}", param=INPUT_REFERENCE
            )


def possible_frames(num_frames: int, capabilities: VideoCapabilities) -> int:
    """Return a number of frames that a model can make, near to the one that is asked for."""
    multiple = capabilities.frame_multiple
    if num_frames < 1 or (num_frames - 1) % multiple == 0:
        return num_frames
    return num_frames // multiple * multiple + 1


async def collect_video(
    stream: VideoStream, progress: Callable[[Progress], None] = lambda step: None
) -> tuple[Video, Ended]:
    """Return the video of a stream, and its end; closes it.

    Args:
        stream: Stream of one video.
        progress: called after each step.

    Raises:
        EngineError: it ended without a video.
    """
    video: Video | None = None
    async with aclosing(stream) as items:
        async for item in items:
            if isinstance(item, Video):
                video = item
            elif isinstance(item, Progress):
                progress(item)
            elif video is not None:
                return video, item
    raise EngineError("The model made no video.")
