"""The scale of latents: that of the VAE, and that of the transformer, which has mean 0, std 1."""

import torch
from torch import Tensor


class LatentScale:
    """Turns latents of the VAE into those of the transformer and back, as diffusers rounds."""

    def __init__(self, means: list[float], stds: list[float], device: torch.device) -> None:
        """Take the statistics of a VAE's channels."""
        shape = (1, len(means), 1, 1, 1)
        self._means = torch.tensor(means).view(shape).to(device)
        self._inverse_stds = 1.0 / torch.tensor(stds).view(shape).to(device)

    def normalized(self, latents: Tensor) -> Tensor:
        """Return latents of the VAE, float32 ``[1, channels, frames, height, width]``, scaled."""
        return (latents - self._means) * self._inverse_stds

    def denormalized(self, latents: Tensor) -> Tensor:
        """Return the inverse of `normalized`."""
        return latents / self._inverse_stds + self._means
