"""Stills of a video: its first frame, small, and a sheet of frames to look it over."""

import numpy as np
from numpy.typing import NDArray

from antiphon.contracts.picture_types import Video
from antiphon.media.image_codec import ImageFormat, encode_image

THUMBNAIL = ImageFormat.WEBP
SPRITESHEET = ImageFormat.JPEG

_QUALITY = 80
_MAX_SIDE = 512  # of a thumbnail, in pixels
_COLUMNS, _ROWS = 4, 4
_MAX_SPRITE_SIDE = 256


def thumbnail(video: Video) -> bytes:
    """Return the first frame as a `THUMBNAIL` file of at most 512 pixels a side; takes CPU time."""
    return encode_image(_shrunk(video.frames[0], _MAX_SIDE), THUMBNAIL, _QUALITY)


def spritesheet(video: Video) -> bytes:
    """Return up to 16 frames, evenly over the video, four in a row, as a `SPRITESHEET` file.

    Takes CPU time. Places that no frame is left for are black.
    """
    num_frames = len(video.frames)
    num_sprites = min(num_frames, _COLUMNS * _ROWS)
    chosen = np.linspace(0, num_frames - 1, num_sprites).round().astype(int)
    sprites = [_shrunk(video.frames[index], _MAX_SPRITE_SIDE) for index in chosen]
    height, width, _ = sprites[0].shape
    columns = min(num_sprites, _COLUMNS)
    sheet = np.zeros((-(-num_sprites // columns) * height, columns * width, 3), np.uint8)
    for number, sprite in enumerate(sprites):
        row, column = divmod(number, columns)
        sheet[row * height : (row + 1) * height, column * width : (column + 1) * width] = sprite
    return encode_image(sheet, SPRITESHEET, _QUALITY)


def _shrunk(pixels: NDArray[np.uint8], max_side: int) -> NDArray[np.uint8]:
    """Return an image, smaller by a whole factor if it is too large: means of squares."""
    factor = -(-max(pixels.shape[:2]) // max_side)
    height, width = (max(1, side // factor) for side in pixels.shape[:2])
    squares = pixels[: height * factor, : width * factor]
    rows, columns = min(factor, pixels.shape[0]), min(factor, pixels.shape[1])
    means = squares.reshape(height, rows, width, columns, 3).mean(axis=(1, 3))
    rounded: NDArray[np.uint8] = means.round().astype(np.uint8)
    return rounded
