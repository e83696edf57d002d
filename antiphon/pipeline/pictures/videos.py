"""Videos: what only their requests have, checked and completed."""

from collections.abc import AsyncGenerator
from dataclasses import replace

from antiphon.config.media import VideoSettings
from antiphon.contracts.picture_types import Progress, Video, VideoRequest
from antiphon.contracts.pictures import VideoCapabilities
from antiphon.contracts.types import Ended
from antiphon.errors import InvalidRequestError
from antiphon.pipeline.pictures.service import VIDEO, PictureService, VideoModel

INPUT_REFERENCE = "input_reference"
"""The field of requests that brings the first frame."""


class Videos(PictureService[VideoModel, VideoRequest, Video]):
    """Makes videos with the served models."""

    task = VIDEO
    does = "makes videos"
    nothing = "The model made no video."
    kind = Video
    settings: VideoSettings

    def _checked(self, request: VideoRequest, model: VideoModel) -> VideoRequest:
        """Bring the number of frames to one that the model can make, as diffusers does it.

        Where it makes 4n + 1, 96 become 97 and 80 become 81.
        """
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
        return replace(request, num_frames=num_frames)

    def stream(self, request: VideoRequest) -> AsyncGenerator[Progress | Video | Ended, None]:
        """Make one video; raises as `PictureService.stream` does."""
        self.check_image(request, has_image=request.image is not None)
        return super().stream(request)

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
            others = self._those_that(lambda each: each.capabilities.takes_image)
            raise InvalidRequestError(
                f"The model '{model.name}' takes no image. {others}", param=INPUT_REFERENCE
            )


def possible_frames(num_frames: int, capabilities: VideoCapabilities) -> int:
    """Return a number of frames that a model can make, near to the one that is asked for."""
    multiple = capabilities.frame_multiple
    if num_frames < 1 or (num_frames - 1) % multiple == 0:
        return num_frames
    return num_frames // multiple * multiple + 1
