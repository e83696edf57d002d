"""Images that requests bring: loaded from where they are, and decoded in a sandbox."""

from antiphon.concurrency import Workers
from antiphon.media.image_codec import ImageSandbox, Pixels, check_installed, opaque
from antiphon.media.references import ReferenceLoader, image_use

_NUM_THREADS = 2


class ImageFiles:
    """Loads and decodes images of clients."""

    def __init__(self, references: ReferenceLoader) -> None:
        """Load by ``references``, which its owner closes."""
        self._references = references
        self._sandbox = ImageSandbox()
        self._workers = Workers("image files", _NUM_THREADS)

    async def load(
        self,
        source: str | bytes,
        param: str,
        *,
        max_bytes: int,
        max_pixels: int,
        keeps_alpha: bool = False,
    ) -> Pixels:
        """Return an image, upright, read-only, of 3 channels; a transparent one lies on white.

        Args:
            source: a file's content, or a data:, http(s): or file: address of one.
            keeps_alpha: whether a transparent image has 4 channels instead.

        Raises:
            InvalidRequestError: it may not be loaded, or cannot be, or is no image, or too large.
            EngineError: no process could be started to decode it.
        """
        check_installed()
        file = await self._references.load(source, image_use(param, max_bytes))
        return await self._workers.run(self._decoded, file, param, max_pixels, keeps_alpha)

    def _decoded(self, file: bytes, param: str, max_pixels: int, keeps_alpha: bool) -> Pixels:
        pixels = self._sandbox.decode(file, max_pixels=max_pixels, param=param)
        if keeps_alpha or pixels.shape[2] == 3:
            return pixels
        pixels = opaque(pixels)
        pixels.flags.writeable = False
        return pixels

    def close(self) -> None:
        """Refuse further calls."""
        self._workers.close()
        self._sandbox.close()
