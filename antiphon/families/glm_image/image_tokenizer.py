"""Turns images to be edited into the codes that the prior reads: a vision tower and a codebook."""

from collections.abc import Generator
from threading import Lock
from typing import Any

import torch
from torch import nn
from transformers import GlmImageConfig, GlmImageImageProcessorPil
from transformers.models.glm_image.modeling_glm_image import GlmImageVisionModel, GlmImageVQVAE

from antiphon.contracts.family import LoadContext
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import Latents
from antiphon.families.glm_image.config import PRIOR_DIRECTORY, PROCESSOR_DIRECTORY
from antiphon.families.kit.loading import weights_for
from antiphon.nn.safetensors_index import WeightsPart
from antiphon.nn.weights import open_weights

_PRIOR = r"lm_head\..*|model\.language_model\..*"


class GlmImageTokenizer:
    """A `StageGenerator`; safe for threads, one image at a time."""

    def __init__(self, context: LoadContext) -> None:
        """Load the networks; raises ModelLoadError if they cannot be loaded."""
        folder = context.checkpoint / PRIOR_DIRECTORY
        config: Any = GlmImageConfig.from_pretrained(str(folder), local_files_only=True)
        processor: Any = GlmImageImageProcessorPil
        self._processor = processor.from_pretrained(
            str(context.checkpoint / PROCESSOR_DIRECTORY), local_files_only=True
        )
        self._lock = Lock()
        with torch.device("meta"):
            networks = nn.ModuleDict(
                {
                    "visual": GlmImageVisionModel._from_config(config.vision_config),
                    "vqmodel": GlmImageVQVAE._from_config(config.vq_config),
                }
            )
        layout = {
            f"model.{name}": tuple(each.shape) for name, each in networks.state_dict().items()
        }
        part = WeightsPart(directory=folder, layout=layout, others=_PRIOR)
        how = weights_for(context, "image tokenizer")
        self._device = how["like"].device
        with open_weights(part, **how) as weights:
            state = {name.removeprefix("model."): weights[name] for name in weights}
        networks.load_state_dict(state, assign=True)
        networks.requires_grad_(False).eval()
        self._visual: Any = networks["visual"]
        self._codebook: Any = networks["vqmodel"]

    def generate(self, prompt: Prompt) -> Generator[Latents, None, None]:
        """Yield the codes of an image, int64 ``[height / 32 * width / 32]``, row by row.

        Args:
            prompt: prompt whose data is the image, ``[height, width, 3]`` of uint8, both multiples
                of 32.
        """
        height, width = (size // 32 for size in prompt.data.shape[:2])
        with self._lock, torch.inference_mode():
            read = self._processor(images=[prompt.data], return_tensors="pt")
            grid = read["image_grid_thw"]
            assert grid.tolist() == [[1, height, width]], "a code stands for 32 x 32 pixels"
            pixels = read["pixel_values"].to(self._device, self._visual.dtype)
            states = self._visual(pixels, grid_thw=grid.to(self._device)).pooler_output
            image = states.view(1, height, width, -1).permute(0, 3, 1, 2).contiguous()
            codes = self._codebook.encode(image).image_tokens
        yield Latents(codes.cpu().numpy())

    def close(self) -> None:
        """Free the memory of the loaded components."""
        del self._visual, self._codebook
