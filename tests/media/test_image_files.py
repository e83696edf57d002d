"""Images that requests bring are loaded and decoded, or it is said what is missing for that."""

import numpy as np
import pytest

from antiphon.config import ReferenceSettings
from antiphon.errors import InvalidRequestError
from antiphon.media import image_codec
from antiphon.media.image_codec import ImageFormat, Pixels, encode_image
from antiphon.media.image_files import ImageFiles
from antiphon.media.references import ReferenceLoader
from tests.loops import on_a_loop
from tests.videos import png


@on_a_loop
async def load(source: str | bytes, *, keeps_alpha: bool = False) -> Pixels:
    references = ReferenceLoader(ReferenceSettings())
    files = ImageFiles(references)
    try:
        return await files.load(
            source,
            "image",
            max_bytes=10**6,
            max_pixels=10**6,
            keeps_alpha=keeps_alpha,
        )
    finally:
        files.close()
        references.close()


def test_a_file_is_decoded() -> None:
    assert load(png()).shape[2] == 3


def test_a_transparent_image_lies_on_white() -> None:
    pixels = np.zeros((2, 2, 4), np.uint8)
    pixels[0, 0] = (200, 0, 0, 255)
    pixels[0, 1] = (200, 0, 0, 0)
    file = encode_image(pixels, ImageFormat.PNG)
    assert load(file)[0].tolist() == [[200, 0, 0], [255, 255, 255]]
    assert load(file, keeps_alpha=True)[0, 1].tolist() == [200, 0, 0, 0]


def test_without_pillow_it_is_said_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_codec, "find_spec", lambda name: None)
    with pytest.raises(InvalidRequestError, match="omni") as refused:
        load(png())
    assert refused.value.code == "not_supported"
