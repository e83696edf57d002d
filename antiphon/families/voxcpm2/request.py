"""Prompt of the language models, frames of latents, and host-side state of a request in a slot.

A frame is the end flag, 0 or 1, followed by its patch: the bits of each float32, in an int64.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from antiphon.families.voxcpm2.config import AUDIO_START, REFERENCE_END, REFERENCE_START

Patches = NDArray[np.float32]
"""Patches, ``[num_patches, patch_size * feature_size]``."""
REFERENCE, CONTINUED = "reference", "continued"
"""Outputs of the voice encoder: patches for reference, and patches for continuation."""
PATCH = -1
"""Placeholder id of a position that holds a patch."""
_PATCH_KEY = 1 << 63


@dataclass(frozen=True, slots=True)
class FlowSampling:
    """Flow parameters of a request.

    Attributes:
        guidance: guidance scale.
        num_steps: number of solver steps.
    """

    guidance: float
    num_steps: int


@dataclass(frozen=True, slots=True, eq=False)
class VoxCPM2Prompt:
    """Input of the language models.

    Attributes:
        ids: text ids, or `PATCH` at positions of patches, int64 ``[num_positions]``.
        patches: patches in the order of their positions.
        bounds: start and end of the reference's patches, and start of the continued ones.
        flow: flow parameters of all frames.
        max_frames: maximum number of generated frames.
    """

    ids: NDArray[np.int64]
    patches: Patches
    bounds: tuple[int, int, int]
    flow: FlowSampling
    max_frames: int

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
            flow: flow parameters of all frames.
            max_frames: maximum number of generated frames.
        """
        beginning, num_referred = (*text, AUDIO_START), 0
        patches = spoken
        if reference is not None:
            num_referred = len(reference)
            beginning = (REFERENCE_START, *[PATCH] * num_referred, REFERENCE_END, *beginning)
            patches = np.concatenate((reference, spoken))
        ids = np.array((*beginning, *[PATCH] * len(spoken)), np.int64)
        return cls(ids, patches, (1, 1 + num_referred, len(beginning)), flow, max_frames)

    @property
    def num_reference_positions(self) -> int:
        """Positions of the reference voice, which come first; 0 without one."""
        _, end, _ = self.bounds
        return end + 1 if self.ids[0] == REFERENCE_START else 0

    def position_keys(self) -> tuple[int, ...]:
        """See `antiphon.contracts.prompt.Prompt`; the last position has no key."""
        patches = iter(self.patches)
        keys = (_key(next(patches)) if each == PATCH else int(each) for each in self.ids)
        return tuple(keys)[:-1]


@dataclass(frozen=True, slots=True, eq=False)
class VoxCPM2Request:
    """Host-side state of a request in a slot.

    Attributes:
        ids: ids of the prompt, and `PATCH` for each frame made before the slot was assigned.
        patches: patches of the prompt, and of those frames.
        num_before: number of patches before each position, int64 ``[len(ids)]``.
    """

    prompt: VoxCPM2Prompt
    ids: NDArray[np.int64]
    patches: Patches
    num_before: NDArray[np.int64]

    @classmethod
    def of(cls, prompt: VoxCPM2Prompt, frames: NDArray[np.int64]) -> "VoxCPM2Request":
        """Start a request, or resume it after the frames that it has generated."""
        ids = np.concatenate((prompt.ids, np.full(len(frames), PATCH)))
        patches = np.concatenate((prompt.patches, patches_of(frames)))
        is_patch = ids == PATCH
        return cls(prompt, ids, patches, np.cumsum(is_patch) - is_patch)

    def patches_between(self, start: int, end: int) -> Patches:
        """Return the patches at positions ``start`` to ``end - 1``."""
        held = self.num_before[start:end][self.ids[start:end] == PATCH]
        patches: Patches = self.patches[held]
        return patches


def _key(patch: Patches) -> int:
    digest = blake2b(patch.tobytes(), digest_size=8).digest()
    return int.from_bytes(digest, "little") | _PATCH_KEY


def frames_of(patches: Patches) -> NDArray[np.int64]:
    """Return the frames of patches, with end flags of 0."""
    bits = np.ascontiguousarray(patches, np.float32).view(np.int32).astype(np.int64)
    return np.pad(bits, ((0, 0), (1, 0)))


def patches_of(frames: NDArray[np.int64]) -> Patches:
    """Return the patches of frames, ``[num_frames, frame_size]``."""
    bits = np.ascontiguousarray(frames[:, 1:].astype(np.int32))
    return bits.view(np.float32)
