"""The toy's images: a patch of colour for each letter, and what noise leaves of it."""

from antiphon.contracts.family import LoadContext
from antiphon.contracts.picture_types import ImageRequest
from antiphon.contracts.pictures import ImageCapabilities
from antiphon.contracts.prompt import Prompt
from antiphon.families.toy.picture import MAX_LETTERS, PARAMETERS, PATCH, ToyPicture, check_letters


class ToyImagePrompter:
    """Builds prompts of letters; the first image of a request is edited, where its mask allows."""

    capabilities = ImageCapabilities(
        sample_request=ImageRequest("ready"),
        parameters=PARAMETERS,
        size_multiple=PATCH,
        default_size=(64, 64),
        max_prompt_tokens=MAX_LETTERS,
        max_images=2,
        masks=True,
    )

    def __init__(self, context: LoadContext) -> None:
        """Nothing to load."""

    def build(self, request: ImageRequest, seed: int) -> Prompt:
        """Build the prompt of one image; raises InvalidRequestError if a text is too long."""
        check_letters(request)
        width, height = self.capabilities.default_size
        picture = ToyPicture(
            prompt=request.prompt,
            negative_prompt=request.negative_prompt or "",
            width=request.width or width,
            height=request.height or height,
            parameters=request.parameters.with_defaults(PARAMETERS),
            num_previews=request.num_previews,
            images=request.images,
            mask=request.mask,
        )
        return Prompt(data=picture, num_tokens=len(request.prompt), seed=seed)
