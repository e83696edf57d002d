"""Sizes of a denoiser over packed latents, known from its configuration alone."""

from dataclasses import dataclass

from antiphon.diffusion.image_prompt import ImagePrompt
from antiphon.diffusion.model_index import ModelIndex

PATCH = 2
"""Of latents, in each direction, that make a position of the denoiser."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedConfig:
    """Facts about a checkpoint that stages and prompter need before anything is loaded.

    Attributes:
        vae_scale_factor: pixels of a latent, in each direction.
        in_channels: input channels of one position of the denoiser.
    """

    index: ModelIndex
    vae_scale_factor: int
    in_channels: int
    inner_dim: int
    min_steps: int = 1

    @classmethod
    def read(cls, index: ModelIndex, num_halvings: int) -> "PackedConfig":
        """Read the configurations of transformer and scheduler; raises ModelLoadError.

        Args:
            num_halvings: number of times that the VAE halves width and height.
        """
        transformer = index.config("transformer")
        # A schedule stretched to a terminal level needs two points.
        is_stretched = bool(index.config("scheduler").values.get("shift_terminal"))
        return cls(
            index=index,
            vae_scale_factor=2**num_halvings,
            in_channels=transformer.integer("in_channels", 64),
            inner_dim=transformer.integer("num_attention_heads", 24)
            * transformer.integer("attention_head_dim", 128),
            min_steps=2 if is_stretched else 1,
        )

    @property
    def size_multiple(self) -> int:
        """Of width and height, in pixels."""
        return self.vae_scale_factor * PATCH

    def latent_size(self, data: ImagePrompt) -> tuple[int, int]:
        """Return height and width of an image's latents."""
        return data.height // self.vae_scale_factor, data.width // self.vae_scale_factor

    def num_positions(self, data: ImagePrompt) -> int:
        """Return how many positions of the denoiser an image has."""
        height, width = self.latent_size(data)
        return height // PATCH * (width // PATCH)
