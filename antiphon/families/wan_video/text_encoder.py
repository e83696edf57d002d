"""The stage that encodes all that a request brings: its prompts, and its first frame.

The first frame is encoded here, not by a stage of its own: a pipeline is the same for all
checkpoints of a family, and most have no image to be encoded, so that such a stage would only pass
on what it is given. Nothing else reads it, and it is computed once for each request, as the text.
"""

import torch
from torch import Tensor
from transformers import UMT5EncoderModel

from antiphon.contracts.prompt import Prompt
from antiphon.diffusion.components import ComponentLoader
from antiphon.diffusion.text_encoder import TextEncoder
from antiphon.families.wan_video.config import load_config
from antiphon.families.wan_video.image_condition import WanImageCondition
from antiphon.families.wan_video.prompt import MAX_PROMPT_TOKENS, WanPrompt

PROMPT = "prompt_embeds"
NEGATIVE = "negative_prompt_embeds"


class WanTextEncoder(TextEncoder):
    """UMT5's encoder; with what encodes the first frame, for checkpoints that take one.

    Its arrays are ``prompt_embeds`` and, with guidance, ``negative_prompt_embeds``, both
    ``[num_tokens, text_dim]`` without padding; and those of `WanImageCondition`.
    """

    def load(self, loader: ComponentLoader) -> None:
        self._encoder = loader.module("text_encoder", UMT5EncoderModel)
        config = load_config(loader.index.path)
        self._image = WanImageCondition(loader, config) if config.takes_image else None

    def encode(self, prompt: Prompt) -> dict[str, Tensor]:
        data: WanPrompt = prompt.data
        tensors = {PROMPT: self._encode_text(data.prompt_ids)}
        if data.is_guided:
            tensors[NEGATIVE] = self._encode_text(data.negative_ids)
        if self._image is not None and data.image is not None:
            tensors |= self._image.encode(data.image, data.width, data.height, data.num_frames)
        return tensors

    def _encode_text(self, ids: tuple[int, ...]) -> Tensor:
        """Return the embeddings of tokens; padded meanwhile, since sums round by their length."""
        num_padding = MAX_PROMPT_TOKENS - len(ids)
        padding = self._encoder.config.pad_token_id
        padded = torch.tensor([[*ids, *[padding] * num_padding]], device=self._encoder.device)
        mask = torch.tensor([[1] * len(ids) + [0] * num_padding], device=self._encoder.device)
        embeddings: Tensor = self._encoder(padded, mask).last_hidden_state
        return embeddings[0, : len(ids)]
