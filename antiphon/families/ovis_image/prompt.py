"""Prompter of Ovis-Image, without torch."""

from antiphon.contracts.family import LoadContext
from antiphon.contracts.picture_types import DiffusionParameters
from antiphon.contracts.pictures import ImageCapabilities
from antiphon.diffusion.image_prompt import ImagePrompter, sample_image
from antiphon.diffusion.tokenizer import load_tokenizer
from antiphon.errors import ModelLoadError
from antiphon.families.ovis_image.checkpoint import (
    INSTRUCTION,
    NUM_DROPPED_TOKENS,
    SEQUENCE_LENGTH,
    read_config,
)

_DEFAULT_SIZE = (1024, 1024)
_DEFAULTS = DiffusionParameters(num_inference_steps=50, guidance_scale=5.0)


class OvisImagePrompter(ImagePrompter):
    """Counts the tokens of prompts and completes requests."""

    def __init__(self, context: LoadContext) -> None:
        """Read the configuration and the tokenizer; raises ModelLoadError."""
        config = read_config(context.checkpoint)
        multiple = config.size_multiple
        self._tokenizer = load_tokenizer(context.checkpoint / "tokenizer")
        if not self._tokenizer.chat_template:
            raise ModelLoadError(f"{context.checkpoint / 'tokenizer'}: has no chat template")
        self._num_around = self._length("")
        self.capabilities = ImageCapabilities(
            sample_request=sample_image(multiple),
            parameters=_DEFAULTS,
            size_multiple=multiple,
            default_size=_DEFAULT_SIZE,
            max_prompt_tokens=SEQUENCE_LENGTH + NUM_DROPPED_TOKENS - self._num_around,
            min_steps=config.min_steps,
        )

    def count_tokens(self, text: str) -> int:
        return self._length(text) - self._num_around

    def _length(self, text: str) -> int:
        message = self._tokenizer.apply_chat_template(
            [{"role": "user", "content": INSTRUCTION + text}],
            tokenize=False,
            add_generation_prompt=True,
            enable_thinking=False,
        )
        return len(self._tokenizer(message, add_special_tokens=False).input_ids)
