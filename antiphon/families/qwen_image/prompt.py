"""Prompter of Qwen-Image and Qwen-Image-Edit, without torch."""

import numpy as np

from antiphon.contracts.family import LoadContext
from antiphon.contracts.picture_types import DiffusionParameters, ImageRequest
from antiphon.contracts.pictures import ImageCapabilities
from antiphon.contracts.prompt import Prompt
from antiphon.diffusion.image_prompt import ImagePrompter, sample_image
from antiphon.diffusion.tokenizer import load_tokenizer
from antiphon.errors import InvalidRequestError
from antiphon.families.qwen_image import editing
from antiphon.families.qwen_image.checkpoint import (
    MAX_SEQUENCE_LENGTH,
    NUM_DROPPED_TOKENS,
    TEMPLATE,
    read_config,
    variant_of,
)
from antiphon.families.qwen_image.editing import Variant, scaled_size

DEFAULT_SIZE = (1024, 1024)
_DEFAULTS = DiffusionParameters(num_inference_steps=50, true_cfg_scale=4.0)


class QwenImagePrompter(ImagePrompter):
    """Counts the tokens of prompts and completes requests."""

    def __init__(self, context: LoadContext) -> None:
        """Read the configuration and the tokenizer; raises ModelLoadError."""
        config = read_config(context.checkpoint)
        multiple = config.size_multiple
        self._variant = variant_of(config.index)
        self._tokenizer = load_tokenizer(context.checkpoint / "tokenizer")
        is_for_edits = self._variant is not Variant.GENERATE
        # In edits the limit applies to the prompt without its template.
        self._template = "{}" if is_for_edits else TEMPLATE
        self._num_around = self._length("")
        num_dropped = 0 if is_for_edits else NUM_DROPPED_TOKENS
        grey = np.full((multiple, multiple, 3), 128, np.uint8)
        self.capabilities = ImageCapabilities(
            sample_request=sample_image(multiple, (grey,) if is_for_edits else ()),
            parameters=_DEFAULTS,
            size_multiple=multiple,
            default_size=DEFAULT_SIZE,
            max_prompt_tokens=MAX_SEQUENCE_LENGTH + num_dropped - self._num_around,
            max_images=self._variant.max_images,
            needs_image=is_for_edits,
            min_steps=config.min_steps,
        )

    def count_tokens(self, text: str) -> int:
        return self._length(text) - self._num_around

    def choose_size(self, request: ImageRequest) -> tuple[int, int]:
        """Return the aspect ratio of the request's last image, at the default area."""
        if not request.images:
            return super().choose_size(request)
        height, width = request.images[-1].shape[:2]
        return scaled_size(editing.VAE_AREA, width, height)

    def build(self, request: ImageRequest, seed: int) -> Prompt:
        most = self._variant.max_images
        if len(request.images) > most or (most and not request.images):
            allowed = f"1 to {most}" if most else "none"
            raise InvalidRequestError(
                f"Invalid 'image': {len(request.images)} images; allowed: {allowed}.",
                param="image",
            )
        return super().build(request, seed)

    def _length(self, text: str) -> int:
        return len(self._tokenizer(self._template.format(text)).input_ids)
