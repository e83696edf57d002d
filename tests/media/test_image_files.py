"""Images that requests bring are loaded and decoded, or it is said what is missing for that."""

import asyncio

import pytest

from antiphon.config import ReferenceSettings
from antiphon.errors import InvalidRequestError
from antiphon.media import image_codec
from antiphon.media.image_files import ImageFiles
from antiphon.media.references import ReferenceLoader
from tests.videos import png


def load(source: str | bytes) -> tuple[int, ...]:
    """Return the shape of an image."""

    async def main() -> tuple[int, ...]:
        references = ReferenceLoader(ReferenceSettings())
        files = ImageFiles(references)
        try:
            pixels = await files.load(source, "image", max_bytes=10**6, max_pixels=10**6)
        finally:
            files.close()
            references.close()
        return pixels.shape

    return asyncio.run(main())


def test_a_file_is_decoded() -> None:
    assert load(png())[2] == 3


def test_without_pillow_it_is_said_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_codec, "find_spec", lambda name: None)
    with pytest.raises(InvalidRequestError, match="omni") as refused:
        load(png())
    assert refused.value.code == "not_supported"
