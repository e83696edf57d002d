"""Builds prompts of Qwen-Image; without torch."""

from antiphon.diffusion.image_prompt import ImagePrompter
from antiphon.diffusion.tokenizer import load_tokenizer
from antiphon.models.qwen_image.checkpoint import (
    MAX_SEQUENCE_LENGTH,
    NUM_DROPPED_TOKENS,
    TEMPLATE,
    read_config,
)
from antiphon.models.spec import ImageCapabilities, LoadContext
from antiphon.types import DiffusionParameters, ImageRequest

DEFAULT_SIZE = (1024, 1024)
_DEFAULTS = DiffusionParameters(num_inference_steps=50, true_cfg_scale=4.0)


class QwenImagePrompter(ImagePrompter):
    """Counts the tokens of prompts and completes requests."""

    def __init__(self, context: LoadContext) -> None:
        """Read the configuration and the tokenizer.

        Raises:
            ModelLoadError: the checkpoint cannot be served.
        """
        assert context.path is not None, "the family needs a checkpoint"
        config = read_config(context.path)
        self._tokenizer = load_tokenizer(context.path / "tokenizer")
        self._num_around = self._length("")
        self.min_steps, multiple = config.min_steps, config.size_multiple
        self._capabilities = ImageCapabilities(
            sample_request=ImageRequest(
                "Ready.",
                width=4 * multiple,
                height=4 * multiple,
                parameters=DiffusionParameters(num_inference_steps=2),
            ),
            parameters=_DEFAULTS,
            size_multiple=multiple,
            default_size=DEFAULT_SIZE,
            max_prompt_tokens=MAX_SEQUENCE_LENGTH + NUM_DROPPED_TOKENS - self._num_around,
        )

    @property
    def capabilities(self) -> ImageCapabilities:
        return self._capabilities

    def count_tokens(self, text: str) -> int:
        return self._length(text) - self._num_around

    def _length(self, text: str) -> int:
        return len(self._tokenizer(TEMPLATE.format(text)).input_ids)
