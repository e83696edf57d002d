"""Draws images: requests are checked and completed, prompts built, stages opened."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from antiphon.config.media import ImageSettings
from antiphon.contracts.picture_types import Image, ImageRequest, Progress
from antiphon.contracts.types import Ended
from antiphon.errors import InvalidRequestError
from antiphon.pipeline.all_or_nothing import alone, together
from antiphon.pipeline.pictures.service import IMAGE, ImageModel, PictureService, completed
from antiphon.telemetry.metrics import Metrics

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ImageItem: TypeAlias = Progress | Image | Ended
ImageStream: TypeAlias = AsyncGenerator[ImageItem, None]
"""Progress and previews, then the final image, then one `Ended`; the caller closes it."""

MAX_SEED = 2**63 - 1
MAX_PREVIEWS = 3


class Images(PictureService[ImageModel]):
    """Draws with the served models."""

    task = IMAGE
    does = "draws images"

    def __init__(
        self,
        models: Mapping[str, ImageModel],
        settings: ImageSettings,
        metrics: Metrics | None = None,
        others: Mapping[str, str] | None = None,
    ) -> None:
        """Serve ``models`` by the name that requests use; the first one is the default.

        Args:
            models: possibly none.
            settings: Settings of the image API.
            metrics: count the requests.
            others: Tasks of served models that do not draw, by their names.
        """
        super().__init__(models, settings.model_aliases, metrics, others)
        self.settings = settings

    def completed(self, request: ImageRequest) -> ImageRequest:
        """Return a request with its size, its seed and all parameters.

        Raises:
            InvalidRequestError: its model cannot draw it; names the field and what is allowed.
        """
        model = self.model(request.model)
        self._check_images(request, model)
        if not 0 <= request.num_previews <= MAX_PREVIEWS:
            raise InvalidRequestError(
                f"Invalid 'partial_images': {request.num_previews}. Allowed: 0 to {MAX_PREVIEWS}.",
                param="partial_images",
            )
        return completed(request, model, self.settings)

    def stream(self, request: ImageRequest) -> ImageStream:
        """Draw one image.

        Closing the stream stops the work within one step and frees all that it held.

        Raises:
            InvalidRequestError: here, or before the first item; names the field and what is
                allowed.
            OverloadedError: before the first item: too much is under way.
            EngineError: the model failed.
        """
        return alone(self.made(self.completed(request), self.model(request.model), Image))

    def several(
        self, requests: Sequence[ImageRequest]
    ) -> AsyncGenerator[tuple[int, ImageItem], None]:
        """Draw images at once: each item comes with the number of its request, from 0.

        No item comes before there is room for all of them; the first that fails ends all.

        Raises:
            InvalidRequestError, OverloadedError, EngineError: as of `stream`.
        """
        return together(
            [
                self.made(
                    self.completed(each),
                    self.model(each.model),
                    Image,
                    tells_admission=len(requests) > 1,
                )
                for each in requests
            ]
        )

    def check_num_images(self, num_images: int, model: ImageModel) -> None:
        """Refuse more images to be edited than a model takes.

        Raises:
            InvalidRequestError: names the served models that edit, if this one does not.
        """
        if num_images > (most := model.capabilities.max_images):
            if most:
                message = f"Invalid 'image': {num_images} images; '{model.name}' takes {most}."
            else:
                message = f"The model '{model.name}' edits no images. {self._editors()}"
            raise InvalidRequestError(message, param="image")

    def _check_images(self, request: ImageRequest, model: ImageModel) -> None:
        """Refuse an edit that the model cannot make."""
        self.check_num_images(len(request.images), model)
        if model.capabilities.needs_image and not request.images:
            raise InvalidRequestError(
                f"The model '{model.name}' only edits images: send them to /v1/images/edits.",
                param="image",
            )
        if request.mask is not None:
            self._check_mask(request.mask, request, model)

    def _check_mask(
        self, mask: "NDArray[np.uint8]", request: ImageRequest, model: ImageModel
    ) -> None:
        if not model.capabilities.masks:
            reason = f"The model '{model.name}' takes no mask: leave it out."
        elif not request.images:
            reason = "A mask needs an image that it belongs to: send one in 'image'."
        elif mask.shape != (shape := request.images[0].shape[:2]):
            reason = (
                f"Invalid 'mask': {mask.shape[1]}x{mask.shape[0]}. It must be as large as the"
                f" first image: {shape[1]}x{shape[0]}."
            )
        else:
            return
        raise InvalidRequestError(reason, param="mask")

    def _editors(self) -> str:
        """Return the names of the models that edit."""
        names = [name for name, each in self.models.items() if each.capabilities.max_images]
        return f"These do: {', '.join(names)}." if names else "No served model does."
