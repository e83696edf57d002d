"""An image or a video that has been made, and can be saved."""

from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from antiphon.contracts.types import Usage
from antiphon.errors import InvalidRequestError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from antiphon.media.image_codec import ImageFormat

VIDEO_SUFFIXES = ("mp4",)


@dataclass(frozen=True, slots=True)
class ImageResult:
    """An image.

    Attributes:
        pixels: shape ``[height, width, channels]``; of 1, 3 or 4 channels.
        usage: text units read.
    """

    pixels: "NDArray[np.uint8]"
    seed: int
    usage: Usage = Usage()

    def save(self, path: str | PathLike[str]) -> None:
        """Write a file; its suffix (.png, .jpg, .jpeg, .webp) names the format.

        Raises:
            InvalidRequestError: the suffix is none of these.
            OSError: it could not be written.
        """
        Path(path).write_bytes(self.encoded(image_format(path)))

    def encoded(self, format: "ImageFormat") -> bytes:
        from antiphon.media.image_codec import encode_image

        return encode_image(self.pixels, format)


@dataclass(frozen=True, slots=True)
class VideoResult:
    """A video.

    Attributes:
        frames: shape ``[num_frames, height, width, 3]``.
        usage: text units read.
    """

    frames: "NDArray[np.uint8]"
    fps: int
    seed: int
    usage: Usage = Usage()

    @property
    def duration_s(self) -> float:
        return len(self.frames) / self.fps

    def save(self, path: str | PathLike[str]) -> None:
        """Write an MP4 file; raises InvalidRequestError or OSError."""
        check_video_suffix(path)
        Path(path).write_bytes(self.encoded())

    def encoded(self) -> bytes:
        from antiphon.contracts.picture_types import Video
        from antiphon.media.video_codec import encoded_video

        return encoded_video(Video(self.frames, self.fps))


def image_format(path: str | PathLike[str]) -> "ImageFormat":
    """Return the format of an image file by its suffix; raises InvalidRequestError."""
    from antiphon.media.image_codec import ImageFormat

    suffix = Path(path).suffix.removeprefix(".").lower().replace("jpg", "jpeg")
    if suffix not in list(ImageFormat):
        raise InvalidRequestError(
            f"Unknown image format '{suffix}'. Available: {', '.join(ImageFormat)}; it is the"
            " suffix of the file.",
            param="output_format",
        )
    return ImageFormat(suffix)


def check_video_suffix(path: str | PathLike[str]) -> None:
    """Raise InvalidRequestError if a video cannot be written to a file of this name."""
    suffix = Path(path).suffix.removeprefix(".").lower()
    if suffix not in VIDEO_SUFFIXES:
        raise InvalidRequestError(
            f"Unknown video format '{suffix}'. Available: {', '.join(VIDEO_SUFFIXES)}; it is the"
            " suffix of the file.",
            param="output_format",
        )
