"""The denoiser of Qwen-Image: a transformer over packed latents and text."""

from collections.abc import Sequence
from functools import partial
from itertools import chain

import torch
from diffusers import QwenImageTransformer2DModel
from torch import Tensor
from torch.nn.functional import pad

from antiphon.contracts.prompt import Prompt
from antiphon.diffusion.components import ComponentLoader
from antiphon.diffusion.flow_denoiser import FlowState, in_groups
from antiphon.diffusion.image_prompt import ImagePrompt
from antiphon.diffusion.packed_config import PATCH
from antiphon.diffusion.packed_denoiser import PackedDenoiser
from antiphon.families.qwen_image.checkpoint import guidance_of, read_config
from antiphon.families.qwen_image.editing import reference_sizes

MAX_MASKED_POSITIONS = 1024
"""Maximum positions of an image that is batched with others of different text lengths.

Attention with a mask is slower, because the fastest kernels do not support it. Larger images fill
a GPU without batching, so that little can be gained.
"""


class QwenImageDenoiser(PackedDenoiser):
    read_config = staticmethod(read_config)
    guidance = staticmethod(guidance_of)

    def load(self, loader: ComponentLoader) -> None:
        super().load(loader)
        self._transformer = loader.module("transformer", QwenImageTransformer2DModel)

    def num_further_positions(self, prompt: Prompt) -> int:
        return prompt.num_tokens + sum(height * width for height, width in self.shapes(prompt.data))

    def shapes(self, data: ImagePrompt) -> tuple[tuple[int, int], ...]:
        """Return height and width, in positions, of the images in a request."""
        multiple = self.config.size_multiple
        sizes = reference_sizes(data)
        return tuple((height // multiple, width // multiple) for width, height in sizes)

    def combined(self, velocity: Tensor, negative: Tensor, scale: float) -> Tensor:
        guided = super().combined(velocity, negative, scale)
        norm = torch.norm(velocity, dim=-1, keepdim=True)
        rescaled: Tensor = guided * (norm / torch.norm(guided, dim=-1, keepdim=True))
        return rescaled

    def velocity(self, states: Sequence[FlowState], text: str, context: str) -> Tensor:
        """Return the velocity with one of the texts, in one or several passes."""
        is_masked = self.config.num_positions(states[0].prompt.data) <= MAX_MASKED_POSITIONS

        def length(state: FlowState) -> int:
            return 0 if is_masked else state.inputs[text].shape[1]

        return in_groups(states, length, partial(self._pass, text=text, context=context))

    def _pass(self, states: Sequence[FlowState], text: str, context: str) -> Tensor:
        embeds, mask = _padded([state.inputs[text] for state in states])
        data: ImagePrompt = states[0].prompt.data
        height, width = self.config.latent_size(data)
        shapes = [(height // PATCH, width // PATCH), *self.shapes(data)]
        latents = torch.cat([state.latents for state in states])
        hidden = latents
        if data.images:
            references = torch.cat([state.inputs["image_latents"] for state in states])
            hidden = torch.cat([latents, references], dim=1)
        with self._transformer.cache_context(context):
            velocity: Tensor = self._transformer(
                hidden_states=hidden,
                timestep=self.timesteps(states) / 1000,
                encoder_hidden_states=embeds,
                encoder_hidden_states_mask=mask,
                img_shapes=[[(1, *shape) for shape in shapes]] * len(states),
                return_dict=False,
            )[0]
        return velocity[:, : latents.shape[1]]


def _padded(embeds: Sequence[Tensor]) -> tuple[Tensor, Tensor | None]:
    """Pad texts to ``[B, T, D]``, and return the mask of valid tokens; ``None`` if all are."""
    lengths = [each.shape[1] for each in embeds]
    longest = max(lengths)
    joined = torch.cat([pad(each, (0, 0, 0, longest - each.shape[1])) for each in embeds])
    if min(lengths) == longest:
        return joined, None
    flags = [chain([True] * length, [False] * (longest - length)) for length in lengths]
    return joined, torch.tensor([list(each) for each in flags], device=joined.device)
