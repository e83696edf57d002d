"""Prompt of the language models, and frames of latents.

A frame is the end flag, 0 or 1, followed by its patch: the bits of each float32, in an int64.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from antiphon.families.kit.mixed.prompt import FRAME, MixedPrompt
from antiphon.families.voxcpm2.config import AUDIO_START, REFERENCE_END, REFERENCE_START

Patches = NDArray[np.float32]
"""Patches, ``[num_patches, patch_size * feature_size]``."""
REFERENCE, CONTINUED = "reference", "continued"
"""Outputs of the voice encoder: patches for reference, and patches for continuation."""


@dataclass(frozen=True, slots=True)
class FlowSampling:
    """Guidance scale of a request, and its number of solver steps."""

    guidance: float
    num_steps: int


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class VoxCPM2Prompt(MixedPrompt):
    """Input of the language models; its frames are patches.

    Attributes:
        bounds: start and end of the reference's patches, and start of the continued ones.
    """

    bounds: tuple[int, int, int]
    flow: FlowSampling

    @classmethod
    def of(
        cls,
        text: Sequence[int],
        *,
        reference: Patches | None,
        spoken: Patches,
        flow: FlowSampling,
        max_frames: int,
    ) -> "VoxCPM2Prompt":
        """Build a prompt.

        Args:
            text: text ids, those of ``spoken`` first.
            reference: patches of the reference voice; ``None``: no reference.
            spoken: patches of speech to continue; ``[0, ...]`` for none.
        """
        beginning, num_referred, patches = (*text, AUDIO_START), 0, spoken
        if reference is not None:
            num_referred = len(reference)
            beginning = (REFERENCE_START, *[FRAME] * num_referred, REFERENCE_END, *beginning)
            patches = np.concatenate((reference, spoken))
        return cls(
            ids=np.array((*beginning, *[FRAME] * len(spoken)), np.int64),
            frames=patches,
            max_frames=max_frames,
            bounds=(1, 1 + num_referred, len(beginning)),
            flow=flow,
        )

    @property
    def num_reference_positions(self) -> int:
        """Positions of the reference voice, which come first; 0 without one."""
        _, end, _ = self.bounds
        return end + 1 if self.ids[0] == REFERENCE_START else 0


def frames_of(patches: Patches) -> NDArray[np.int64]:
    """Return the frames of patches, with end flags of 0."""
    bits = np.ascontiguousarray(patches, np.float32).view(np.int32).astype(np.int64)
    return np.pad(bits, ((0, 0), (1, 0)))


def patches_of(frames: NDArray[np.int64]) -> Patches:
    """Return the patches of frames, ``[num_frames, frame_size]``."""
    bits = np.ascontiguousarray(frames[:, 1:].astype(np.int32))
    return bits.view(np.float32)
