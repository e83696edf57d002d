"""Image files: what goes out comes back, and hostile ones are refused before they are decoded."""

import io
import struct
import zlib
from collections.abc import Generator

import numpy as np
import pytest
from PIL import Image

from antiphon.errors import InvalidRequestError
from antiphon.media.image_codec import ImageFormat, ImageSandbox, Pixels, decode_image, encode_image

MAX_PIXELS = 1024 * 1024


def picture(channels: int, height: int = 24, width: int = 40) -> Pixels:
    """Return something smooth: JPEG and WebP keep it nearly."""
    rows, columns = np.mgrid[:height, :width]
    planes = [rows * 5, columns * 5, (rows + columns) * 3, 255 - columns * 4]
    return np.stack(planes[:channels], axis=-1).astype(np.uint8)


@pytest.fixture(scope="module")
def sandbox() -> Generator[ImageSandbox, None, None]:
    opened = ImageSandbox()
    yield opened
    opened.close()


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("format", ImageFormat)
def test_what_is_encoded_comes_back(format: ImageFormat, channels: int) -> None:
    pixels = picture(channels)
    file = encode_image(pixels, format)
    assert file == encode_image(pixels, format)
    back = decode_image(file, max_pixels=MAX_PIXELS)
    if format is ImageFormat.JPEG:
        assert back.shape == (*pixels.shape[:2], 3)
        if channels < 4:
            assert np.abs(back.astype(int) - pixels).max() < 16
    else:
        expected = np.repeat(pixels, 3, axis=2) if channels == 1 else pixels
        assert np.array_equal(back, expected)


@pytest.mark.parametrize("format", [ImageFormat.JPEG, ImageFormat.WEBP])
def test_less_quality_makes_smaller_files(format: ImageFormat) -> None:
    noise = np.random.default_rng(1).integers(256, size=(64, 64, 3), dtype=np.uint8)
    sizes = [len(encode_image(noise, format, quality)) for quality in (10, 50, 100)]
    assert sizes == sorted(set(sizes))


def test_transparency_becomes_white_if_it_must() -> None:
    pixels = np.zeros((8, 8, 4), np.uint8)
    back = decode_image(encode_image(pixels, ImageFormat.PNG, is_opaque=True), max_pixels=64)
    assert np.array_equal(back, np.full((8, 8, 3), 255, np.uint8))
    assert decode_image(encode_image(pixels, ImageFormat.JPEG), max_pixels=64).min() == 255


def saved(image: Image.Image, format: str = "PNG", **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, format, **options)
    return file.getvalue()


def test_every_kind_of_file_becomes_rgb() -> None:
    grey = Image.fromarray(picture(1)[..., 0])
    deep = Image.fromarray((picture(1)[..., 0].astype(np.uint16) << 8) | 7)
    palette = Image.fromarray(picture(3)).quantize(16)
    for image in (grey, deep, palette, grey.convert("1")):
        assert decode_image(saved(image), max_pixels=MAX_PIXELS).shape == (24, 40, 3)
    assert np.array_equal(decode_image(saved(deep), max_pixels=MAX_PIXELS)[..., :1], picture(1))
    clear = decode_image(saved(palette, transparency=0), max_pixels=MAX_PIXELS)
    assert clear.shape == (24, 40, 4)
    cmyk = Image.fromarray(picture(4), "CMYK")
    assert decode_image(saved(cmyk, "JPEG"), max_pixels=MAX_PIXELS).shape == (24, 40, 3)


def test_a_photograph_stands_upright() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera lay on its side
    turned = saved(Image.fromarray(picture(3)), "JPEG", exif=exif)
    assert decode_image(turned, max_pixels=MAX_PIXELS).shape == (40, 24, 3)


def chunk(kind: bytes, content: bytes) -> bytes:
    return (
        struct.pack(">I", len(content))
        + kind
        + content
        + struct.pack(">I", zlib.crc32(kind + content))
    )


def bomb(width: int, height: int) -> bytes:
    """Return a small PNG that says it is large."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = zlib.compress(bytes(100_000), 9)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    )


GOOD = encode_image(picture(3), ImageFormat.PNG)
HOSTILE = {
    "nothing": b"",
    "text": b"<svg xmlns='http://www.w3.org/2000/svg'/>",
    "gif": saved(Image.fromarray(picture(1)[..., 0]), "GIF"),
    "tiff": saved(Image.fromarray(picture(3)), "TIFF"),
    "bomb": bomb(60_000, 60_000),
    "untold": bomb(1000, 1000),
    "truncated png": GOOD[: len(GOOD) // 2],
    "truncated jpeg": encode_image(picture(3, 200, 200), ImageFormat.JPEG)[:500],
    "truncated webp": encode_image(picture(3), ImageFormat.WEBP)[:60],
    "zeros": bytes(1000),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_refused(sandbox: ImageSandbox, name: str) -> None:
    for decode in (decode_image, sandbox.decode):
        with pytest.raises(InvalidRequestError) as refused:
            decode(HOSTILE[name], max_pixels=MAX_PIXELS, param="input_reference")
        assert refused.value.param == "input_reference"
        assert (name == "bomb") == ("60000x60000 pixels" in refused.value.message)


def test_the_sandbox_reads_what_is_good(sandbox: ImageSandbox) -> None:
    for format in ImageFormat:
        for channels in (3, 4):
            file = encode_image(picture(channels), format)
            back = sandbox.decode(file, max_pixels=MAX_PIXELS)
            assert np.array_equal(back, decode_image(file, max_pixels=MAX_PIXELS))


def test_a_file_that_needs_more_memory_than_there_is_ends_its_own_child() -> None:
    sandbox = ImageSandbox(max_memory_bytes=64 * 1024 * 1024)
    try:
        large = saved(Image.new("RGB", (8000, 8000)))
        with pytest.raises(InvalidRequestError, match="too much memory"):
            sandbox.decode(large, max_pixels=10**9)
        assert sandbox.decode(GOOD, max_pixels=MAX_PIXELS).shape == (24, 40, 3)
    finally:
        sandbox.close()
