"""Turns frames into an MP4 file that players can begin before they have all of it.

The codec is H.264 where the FFmpeg that PyAV brings can make it (by x264 or OpenH264), else MPEG-4
part 2, which browsers do not play. The file is made in memory: it is a hundredth of its frames.
"""

import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache

import av
import numpy as np
from av.container import OutputContainer
from av.video.reformatter import ColorRange, Colorspace
from av.video.stream import VideoStream
from numpy.typing import NDArray

from antiphon.concurrency import Workers
from antiphon.contracts.picture_types import Video

MEDIA_TYPE = "video/mp4"
SUFFIX = "mp4"

_NUM_THREADS = 4  # a part of what x264 makes: the same on every machine
_PIXELS_OF_PIECE = 8 * 1280 * 720  # a fraction of a second's work
_INDEX_BYTES = 4096
_INDEX_BYTES_OF_FRAME = 64  # an entry in each of the index's tables takes 4 to 12 bytes
_BT709 = 1  # of H.273: primaries, transfer and matrix


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoRecipe:
    """How one codec is driven.

    Attributes:
        bits_of_pixel: Bit rate per pixel of each frame, for encoders that need one; else 0.
    """

    codec: str
    title: str
    options: Mapping[str, str] = field(default_factory=dict)
    bits_of_pixel: float = 0.0


RECIPES = (
    VideoRecipe(
        codec="libx264",
        title="H.264",
        # By its macroblock tree, x264 makes one of several files of the same frames.
        options={"crf": "20", "preset": "fast", "mbtree": "0"},
    ),
    VideoRecipe(codec="libopenh264", title="H.264", bits_of_pixel=0.15),
    VideoRecipe(codec="mpeg4", title="MPEG-4 part 2", bits_of_pixel=0.3),
)
"""The best first; the last one is built into every FFmpeg."""


@cache
def chosen_recipe() -> VideoRecipe:
    """Return the best recipe whose encoder this FFmpeg has."""
    return next(each for each in RECIPES if each.codec in av.codecs_available)


class VideoEncoder:
    """One MP4 file in the making; its calls take CPU time, so they belong in worker threads.

    The same frames give the same bytes, however they are cut: no time, version or random number
    gets in. Frames of odd width or height get their last column or row twice, since the colours of
    H.264 that all players know (4:2:0) come in pairs of pixels.
    """

    def __init__(
        self,
        width: int,
        height: int,
        fps: int,
        num_frames: int,
        recipe: VideoRecipe | None = None,
    ) -> None:
        """Begin a file of ``num_frames`` frames; ``recipe`` defaults to `chosen_recipe`."""
        self._recipe = recipe or chosen_recipe()
        self._size = width, height
        self._fps = fps
        self._num_coded = 0
        self._file = io.BytesIO()
        self._container: OutputContainer | None = av.open(
            self._file,
            "w",
            format="mp4",
            # The index lies before the frames, where `+faststart` would put it; that rewrites the
            # file in the end, and needs its path for it.
            options={
                "moov_size": str(_INDEX_BYTES + _INDEX_BYTES_OF_FRAME * num_frames),
                "fflags": "+bitexact",
                "movflags": "+disable_chpl+write_colr",
            },
        )
        self._stream = self._add_stream(self._container)

    def _add_stream(self, container: OutputContainer) -> VideoStream:
        recipe = self._recipe
        options = {**recipe.options, "flags": "+bitexact", "threads": str(_NUM_THREADS)}
        stream = container.add_stream(recipe.codec, rate=self._fps, options=options)
        assert isinstance(stream, VideoStream)
        width, height = (length + length % 2 for length in self._size)
        stream.width, stream.height = width, height
        stream.pix_fmt = "yuv420p"
        stream.time_base = Fraction(1, self._fps)
        stream.color_range = ColorRange.MPEG
        stream.colorspace = stream.color_primaries = stream.color_trc = _BT709
        if recipe.bits_of_pixel:
            stream.bit_rate = round(recipe.bits_of_pixel * width * height * self._fps)
        return stream

    def encode(self, frames: NDArray[np.uint8]) -> None:
        """Take the next frames, shape ``[num_frames, height, width, 3]``."""
        assert self._container is not None, "the encoder is finished or closed"
        width, height = self._size
        padding = ((0, 0), (0, height % 2), (0, width % 2), (0, 0))
        if height % 2 or width % 2:
            frames = np.pad(frames, padding, "edge")
        for pixels in frames:
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(pixels), "rgb24")
            frame = frame.reformat(
                format="yuv420p",
                dst_colorspace=Colorspace.ITU709,
                dst_color_range=ColorRange.MPEG,
            )
            frame.pts = self._num_coded
            frame.time_base = Fraction(1, self._fps)
            self._num_coded += 1
            self._container.mux(self._stream.encode(frame))

    def finish(self) -> bytes:
        """Return the file, and free the encoder."""
        assert self._container is not None, "the encoder is finished or closed"
        self._container.mux(self._stream.encode(None))
        self.close()
        return self._file.getvalue()

    def close(self) -> None:
        """Free the encoder, finished or not; may be called again."""
        if self._container is not None:
            container, self._container = self._container, None
            container.close()


def encoded_video(video: Video) -> bytes:
    """Return a video as an MP4 file; blocks."""
    num_frames, height, width, _ = video.frames.shape
    encoder = VideoEncoder(width, height, video.fps, num_frames)
    try:
        encoder.encode(video.frames)
        return encoder.finish()
    finally:
        encoder.close()


async def encode_video(video: Video, workers: Workers) -> bytes:
    """Return a video as an MP4 file, made piece by piece in worker threads.

    A caller that is cancelled waits for the piece under way only.
    """
    num_frames, height, width, _ = video.frames.shape
    encoder = await workers.run(VideoEncoder, width, height, video.fps, num_frames)
    frames_of_piece = max(1, _PIXELS_OF_PIECE // (width * height))
    try:
        for start in range(0, num_frames, frames_of_piece):
            await workers.run(encoder.encode, video.frames[start : start + frames_of_piece])
        return await workers.run(encoder.finish)
    finally:
        encoder.close()
