"""Encodes the first frame of a video: by the VAE, and for Wan 2.1 by CLIP."""

from typing import Any

import numpy as np
import torch
import transformers
from diffusers import AutoencoderKLWan
from diffusers.video_processor import VideoProcessor
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor
from transformers import CLIPImageProcessorPil

from antiphon.diffusion.components import ComponentLoader
from antiphon.families.wan_video.config import IMAGE_ENCODERS, WanConfig
from antiphon.families.wan_video.latents import LatentScale

CONDITION = "condition"
IMAGE = "image_embeds"


class WanImageCondition:
    """The encoding half of the VAE, and CLIP's vision model where the transformer reads that.

    The VAE carries state from frame to frame on the model object: one call at a time.
    """

    def __init__(self, loader: ComponentLoader, config: WanConfig) -> None:
        """Load them.

        Raises:
            ModelLoadError: the checkpoint cannot be served.
        """
        vae: Any = loader.module("vae", AutoencoderKLWan, dtype=torch.float32)
        vae.decoder = vae.post_quant_conv = None
        self._vae = vae
        self._scale = LatentScale(vae.config.latents_mean, vae.config.latents_std, loader.device)
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
            width: width of the video in pixels.
            height: height of the video in pixels.
            num_frames: frames of the video.

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
        return self._scale.normalized(self._vae.encode(video).latent_dist.mode())
