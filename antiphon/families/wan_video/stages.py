"""Stages around the denoiser: encoder of prompts and first frames, and decoder of videos.

The first frame is encoded here, not by a stage of its own: a pipeline is the same for all
checkpoints of a family, and most have no image to be encoded, so that such a stage would only pass
on what it is given. Nothing else reads it, and it is computed once for each request, as the text.
"""

from typing import Any

import numpy as np
import torch
import transformers
from diffusers import AutoencoderKLWan
from diffusers.video_processor import VideoProcessor
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor
from transformers import CLIPImageProcessorPil, UMT5EncoderModel

from antiphon.contracts.picture_types import Video
from antiphon.contracts.prompt import Prompt
from antiphon.diffusion.arrays import to_pixels
from antiphon.diffusion.component_stages import TextEncoder, VaeDecoder, channel_statistics
from antiphon.diffusion.components import ComponentLoader
from antiphon.families.wan_video.config import IMAGE_ENCODERS, WanConfig, load_config
from antiphon.families.wan_video.prompt import MAX_PROMPT_TOKENS, WanPrompt

PROMPT = "prompt_embeds"
NEGATIVE = "negative_prompt_embeds"
CONDITION = "condition"
IMAGE = "image_embeds"


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


class WanImageCondition:
    """The encoding half of the VAE, and CLIP's vision model where the transformer reads that.

    The VAE carries state from frame to frame on the model object: one call at a time.
    """

    def __init__(self, loader: ComponentLoader, config: WanConfig) -> None:
        """Load them; raises ModelLoadError."""
        vae: Any = loader.module("vae", AutoencoderKLWan, dtype=torch.float32)
        vae.decoder = vae.post_quant_conv = None
        self._vae = vae
        self._mean, std = channel_statistics(vae.config, 3, torch.empty(0, device=loader.device))
        self._inverse_std = 1.0 / std
        self._video_processor = VideoProcessor(vae_scale_factor=config.vae.scale_factor_spatial)
        self._takes_first_only = config.expand_timesteps
        self._device = loader.device
        self._clip: Any = None
        if config.transformer.image_dim:
            name = loader.index.check("image_encoder", *IMAGE_ENCODERS)
            self._clip = loader.module("image_encoder", getattr(transformers, name))
            # Pillow's, as its authors trained with: torchvision's rounds differently.
            self._clip_processor: Any = loader.other("image_processor", CLIPImageProcessorPil)

    def encode(
        self, image: NDArray[np.uint8], width: int, height: int, num_frames: int
    ) -> dict[str, Tensor]:
        """Return the transformer's inputs for a first frame.

        Args:
            image: ``[height, width, 3]``, of any size; stretched to that of the video.

        Returns:
            ``condition``: latents ``[1, channels, frames, height, width]`` of a video that is grey
            after its first frame, or of the first frame alone for TI2V-5B. ``image_embeds``: CLIP's
            ``[1, num_positions, image_dim]``, for Wan 2.1.
        """
        picture = Image.fromarray(image)
        tensors = {CONDITION: self._encode_latents(picture, width, height, num_frames)}
        if self._clip is not None:
            pixels = self._clip_processor(images=picture, return_tensors="pt").to(self._device)
            tensors[IMAGE] = self._clip(**pixels, output_hidden_states=True).hidden_states[-2]
        return tensors

    def _encode_latents(
        self, picture: Image.Image, width: int, height: int, num_frames: int
    ) -> Tensor:
        pixels = self._video_processor.preprocess(picture, height=height, width=width)
        video = pixels.to(self._device, dtype=torch.float32).unsqueeze(2)
        if not self._takes_first_only:
            empty = video.new_zeros(*video.shape[:2], num_frames - 1, height, width)
            video = torch.cat([video, empty], dim=2)
        latents: Tensor = self._vae.encode(video).latent_dist.mode()
        return (latents - self._mean) * self._inverse_std


class WanVaeDecoder(VaeDecoder):
    """The decoding half of the VAE, in float32, as its authors advise."""

    @property
    def dtype(self) -> torch.dtype:
        return torch.float32

    def load(self, loader: ComponentLoader) -> None:
        vae: Any = loader.module("vae", AutoencoderKLWan, dtype=self.dtype)
        vae.encoder = vae.quant_conv = None
        self._vae = vae
        self._mean, std = channel_statistics(vae.config, 3, torch.empty(0, device=loader.device))
        self._inverse_std = 1.0 / std

    def decode(self, latents: Tensor, prompt: Prompt) -> Tensor:
        scaled = latents / self._inverse_std + self._mean
        pixels: Tensor = self._vae.decode(scaled, return_dict=False)[0]
        return pixels

    def item(self, values: Tensor, prompt: Prompt, preview_index: int | None) -> Video:
        return Video(to_pixels(values.movedim(0, 1)), prompt.data.fps)
