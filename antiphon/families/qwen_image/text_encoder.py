"""The text encoder of Qwen-Image: hidden states of Qwen2.5-VL."""

from collections.abc import Mapping

from diffusers import QwenImagePipeline
from torch import Tensor
from transformers import Qwen2_5_VLForConditionalGeneration, Qwen2Tokenizer

from antiphon.contracts.family import LoadContext
from antiphon.contracts.prompt import Prompt
from antiphon.diffusion.components import ComponentLoader
from antiphon.diffusion.image_prompt import ImagePrompt
from antiphon.diffusion.model_index import ModelIndex
from antiphon.diffusion.text_encoder import TextEncoder
from antiphon.families.qwen_image.checkpoint import MAX_SEQUENCE_LENGTH, variant_of
from antiphon.families.qwen_image.editing import Variant
from antiphon.families.qwen_image.guidance import guidance_of


def load_text_encoder(context: LoadContext) -> TextEncoder:
    """Load the encoder of a checkpoint: for texts, or for texts and images.

    Raises:
        ModelLoadError: the checkpoint cannot be served.
    """
    if variant_of(ModelIndex.read(context.checkpoint)) is Variant.GENERATE:
        return QwenImageTextEncoder(context)
    from antiphon.families.qwen_image.image_encoder import QwenImageEditEncoder

    return QwenImageEditEncoder(context)


class QwenImageTextEncoder(TextEncoder):
    """Yields ``prompt_embeds``, ``[1, T, D]``, and ``negative_prompt_embeds`` with guidance."""

    def load(self, loader: ComponentLoader) -> None:
        self._pipeline = QwenImagePipeline(
            scheduler=None,
            vae=None,
            text_encoder=loader.module("text_encoder", Qwen2_5_VLForConditionalGeneration),
            tokenizer=loader.other("tokenizer", Qwen2Tokenizer),
            transformer=None,
        )

    def encode(self, prompt: Prompt) -> Mapping[str, Tensor]:
        data: ImagePrompt = prompt.data
        embeds = {"prompt_embeds": self._embeds(data.prompt)}
        if guidance_of(data) is not None:
            assert data.negative_prompt is not None
            embeds["negative_prompt_embeds"] = self._embeds(data.negative_prompt)
        return embeds

    def _embeds(self, text: str) -> Tensor:
        embeds: Tensor = self._pipeline.encode_prompt(
            text, device=self._loader.device, max_sequence_length=MAX_SEQUENCE_LENGTH
        )[0]
        return embeds
