"""Images as files, by Pillow: PNG, JPEG and WebP; those of clients are read in a sandbox.

Pillow comes with the extra ``[omni]``, and is imported when it is first needed.
"""

import io
import struct
from enum import StrEnum
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from antiphon.errors import InvalidRequestError, how_to_install
from antiphon.sandbox.process import Sandbox

if TYPE_CHECKING:
    from PIL.Image import Image as PillowImage

Pixels = NDArray[np.uint8]
"""Shape ``[height, width, channels]``: 1 (grey), 3 (RGB) or 4 (with alpha)."""

_SHAPE = struct.Struct("<III")
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}
_WITH_ALPHA = ("RGBA", "LA", "PA", "La", "RGBa")


class ImageFormat(StrEnum):
    PNG = "png"
    JPEG = "jpeg"
    WEBP = "webp"

    @property
    def media_type(self) -> str:
        return f"image/{self}"

    @property
    def is_lossy(self) -> bool:
        """Whether a quality can be chosen."""
        return self is not ImageFormat.PNG

    @property
    def has_alpha(self) -> bool:
        """Whether it can be transparent."""
        return self is not ImageFormat.JPEG


def check_installed() -> None:
    """Raise InvalidRequestError with the command to install Pillow if it is missing."""
    if find_spec("PIL") is None:
        raise InvalidRequestError(
            f"Images need Pillow, which is missing: {how_to_install('omni')}.",
            code="not_supported",
        )


def encode_image(
    pixels: Pixels, format: ImageFormat, quality: int | None = None, *, is_opaque: bool = False
) -> bytes:
    """Return an image as a file; takes CPU time. Equal images give equal files.

    Args:
        quality: 0 to 100, of lossy formats; ``None``: 90 for JPEG, lossless for WebP.
        is_opaque: put it on white if it has an alpha channel; JPEG always does.
    """
    from PIL import Image

    flat = pixels[..., 0] if pixels.shape[2] == 1 else pixels
    image = Image.fromarray(np.ascontiguousarray(flat), _MODES[pixels.shape[2]])
    if image.mode == "RGBA" and (is_opaque or not format.has_alpha):
        white = Image.new("RGBA", image.size, (255, 255, 255, 255))
        image = Image.alpha_composite(white, image).convert("RGB")
    file = io.BytesIO()
    options: dict[str, Any] = {}
    if format is ImageFormat.JPEG:
        options = {"quality": 90 if quality is None else quality}
    elif format is ImageFormat.WEBP:
        options = {"lossless": True} if quality is None else {"quality": quality}
    image.save(file, format.upper(), **options)
    return file.getvalue()


def decode_image(data: bytes, *, max_pixels: int, param: str = "image") -> Pixels:
    """Return the image in a PNG, JPEG or WebP file, upright; takes CPU time.

    Its size is read from its header, and nothing is decoded if it is too large. What Pillow
    allocates while it reads a hostile file is not bounded here: files of clients belong in an
    `ImageSandbox`.

    Returns:
        Its first frame, of 3 channels, or of 4 if it has transparency.

    Raises:
        InvalidRequestError: it is no such file, damaged, or too large.
    """
    from PIL import Image, ImageOps, UnidentifiedImageError

    Image.MAX_IMAGE_PIXELS = None  # ours is the bound
    try:
        with Image.open(io.BytesIO(data), formats=tuple(map(str.upper, ImageFormat))) as opened:
            width, height = opened.size
            if width * height > max_pixels:
                raise InvalidRequestError(
                    f"Invalid '{param}': {width}x{height} pixels; at most {max_pixels} in all are"
                    " allowed.",
                    param=param,
                )
            upright = ImageOps.exif_transpose(opened)
            has_alpha = upright.mode in _WITH_ALPHA or "transparency" in upright.info
            return _pixels(upright, has_alpha=has_alpha)
    except UnidentifiedImageError as error:
        raise refusal("it is not a readable PNG, JPEG or WebP file", param) from error
    except (OSError, ValueError, SyntaxError, EOFError, struct.error) as error:
        raise refusal("it is damaged", param) from error


def _pixels(image: "PillowImage", *, has_alpha: bool) -> Pixels:
    if image.mode.startswith("I;16"):  # whose conversion would cut off what is above 255
        deep = np.asarray(image).astype(np.uint16) >> 8
        return np.repeat(deep.astype(np.uint8)[..., np.newaxis], 3, axis=2)
    return np.array(image.convert("RGBA" if has_alpha else "RGB"), np.uint8)


def opaque(pixels: Pixels) -> Pixels:
    """Return an image of 3 channels: a transparent one on white."""
    if pixels.shape[2] == 3:
        return pixels
    alpha = pixels[..., 3:].astype(np.uint16)
    mixed = (pixels[..., :3] * alpha + 255 * (255 - alpha) + 127) // 255
    return mixed.astype(np.uint8)


def refusal(reason: str, param: str = "image") -> InvalidRequestError:
    """Return the error for a file that cannot be read."""
    return InvalidRequestError(f"Could not read the image: {reason}.", param=param)


class ImageSandbox(Sandbox):
    """Decodes images in children without rights; safe for several threads at once."""

    def __init__(self, *, max_memory_bytes: int = 1024 * 1024 * 1024) -> None:
        """Limit what a child may allocate for one file, where we can."""
        super().__init__(__name__, refusal, max_memory_bytes=max_memory_bytes)

    def decode(self, data: bytes, *, max_pixels: int, param: str = "image") -> Pixels:
        """Do what `decode_image` does; blocks, so it belongs in a worker thread.

        Raises:
            InvalidRequestError: as from `decode_image`, or the file would take too much memory or
                time.
            EngineError: the child did not even start.
        """
        content = self.ask(data, max_pixels=max_pixels, param=param)
        shape = _SHAPE.unpack_from(content)
        return np.frombuffer(content, np.uint8, offset=_SHAPE.size).reshape(shape)


def prepare() -> None:
    """Read an image of each format, so that whatever is imported on first use has been."""
    for format in ImageFormat:
        for channels in (3, 4):
            file = encode_image(np.zeros((1, 1, channels), np.uint8), format)
            decode_image(file, max_pixels=1)


def answer(data: bytes, *, max_pixels: int, param: str) -> bytes:
    """Return shape and pixels of an image as bytes; see `decode_image`."""
    pixels = decode_image(data, max_pixels=max_pixels, param=param)
    return _SHAPE.pack(*pixels.shape) + pixels.tobytes()
