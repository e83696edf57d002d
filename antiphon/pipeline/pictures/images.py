"""Images: what only their requests have, checked."""

from typing import TYPE_CHECKING, TypeAlias

from antiphon.config.media import ImageSettings
from antiphon.contracts.picture_types import Image, ImageRequest, Progress
from antiphon.contracts.types import Ended
from antiphon.errors import InvalidRequestError, invalid
from antiphon.pipeline.pictures.service import IMAGE, ImageModel, PictureService

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ImageItem: TypeAlias = Progress | Image | Ended

MAX_SEED = 2**63 - 1
MAX_PREVIEWS = 3


class Images(PictureService[ImageModel, ImageRequest, Image]):
    """Draws with the served models."""

    task = IMAGE
    does = "draws images"
    nothing = "The model drew nothing."
    kind = Image
    settings: ImageSettings

    def _checked(self, request: ImageRequest, model: ImageModel) -> ImageRequest:
        self._check_images(request, model)
        if not 0 <= request.num_previews <= MAX_PREVIEWS:
            raise invalid("partial_images", f"{request.num_previews}. Allowed: 0 to {MAX_PREVIEWS}")
        return request

    def check_num_images(self, num_images: int, model: ImageModel) -> None:
        """Refuse more images to be edited than a model takes; raises InvalidRequestError."""
        if num_images > (most := model.capabilities.max_images):
            if most:
                message = f"Invalid 'image': {num_images} images; '{model.name}' takes {most}."
            else:
                editors = self._those_that(lambda each: each.capabilities.max_images)
                message = f"The model '{model.name}' edits no images. {editors}"
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
