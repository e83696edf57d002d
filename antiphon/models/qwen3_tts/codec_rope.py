"""Rotary position embedding at any position: streams have no longest length to build tables for."""

from dataclasses import dataclass

import torch
from torch import Tensor

from antiphon.models.qwen3_tts.config import TransformerConfig
from antiphon.nn.layers import Rotation


@dataclass(frozen=True, slots=True)
class Frequencies:
    """Radians per position, float32 ``[head_dim]``, the second half equal to the first."""

    radians: Tensor

    @classmethod
    def of(cls, config: TransformerConfig, device: torch.device) -> "Frequencies":
        exponents = torch.arange(0, config.head_dim, 2, device=device).float() / config.head_dim
        return cls((1.0 / config.rope_theta**exponents).repeat(2))

    def at(self, positions: Tensor, dtype: torch.dtype) -> Rotation:
        """Return the rotation of ``positions``, int64 of any shape."""
        angles = positions[..., None, None].float() * self.radians
        return Rotation(angles.cos().to(dtype), angles.sin().to(dtype))
