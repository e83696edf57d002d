"""What the model reads of a prompt, and what the host keeps of a request in a slot."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from antiphon.families.voxcpm2.config import AUDIO_START, REFERENCE_END, REFERENCE_START
from antiphon.families.voxcpm2.latents import Patches, patches_of

PATCH = -1
"""In the place of an id: the position holds a patch."""
_PATCH_KEY = 1 << 63


@dataclass(frozen=True, slots=True)
class FlowSampling:
    """How a request's patches are made of noise.

    Attributes:
        guidance: see `antiphon.families.voxcpm2.flow.FlowInputs`.
        num_steps: likewise.
    """

    guidance: float
    num_steps: int


@dataclass(frozen=True, slots=True, eq=False)
class VoxCPM2Prompt:
    """What the model reads.

    Attributes:
        ids: of text at each position, `PATCH` where there is a patch, int64 ``[num_positions]``.
        patches: in the order of their positions.
        bounds: patches are at positions from the first to before the second, and from the third on.
        flow: of all frames.
        max_frames: after which speech ends.
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
        """Lay a prompt out.

        Args:
            text: ids of all that is said, that of ``spoken`` first.
            reference: how the voice sounds.
            spoken: speech that is continued; ``[0, ...]`` for none.
            flow: of all frames.
            max_frames: after which speech ends.
        """
        said, num_referred = (*text, AUDIO_START), 0
        patches = spoken
        if reference is not None:
            num_referred = len(reference)
            said = (REFERENCE_START, *[PATCH] * num_referred, REFERENCE_END, *said)
            patches = np.concatenate((reference, spoken))
        ids = np.array((*said, *[PATCH] * len(spoken)), np.int64)
        return cls(ids, patches, (1, 1 + num_referred, len(said)), flow, max_frames)

    @property
    def num_reference_positions(self) -> int:
        """Positions that say how the voice sounds, which are the first; 0 without any."""
        _, end, _ = self.bounds
        return end + 1 if self.ids[0] == REFERENCE_START else 0

    def position_keys(self) -> tuple[int, ...]:
        """See `antiphon.contracts.prompt.Prompt`; that of the last position is not among them."""
        patches = iter(self.patches)
        keys = (_key(next(patches)) if each == PATCH else int(each) for each in self.ids)
        return tuple(keys)[:-1]


@dataclass(frozen=True, slots=True, eq=False)
class VoxCPM2Request:
    """A request in a slot.

    Attributes:
        ids: of the prompt, and `PATCH` for each frame that was made before the slot was taken.
        patches: likewise.
        num_before: of each position, the patches before it, int64 ``[len(ids)]``.
    """

    prompt: VoxCPM2Prompt
    ids: NDArray[np.int64]
    patches: Patches
    num_before: NDArray[np.int64]

    @classmethod
    def of(cls, prompt: VoxCPM2Prompt, frames: NDArray[np.int64]) -> "VoxCPM2Request":
        """Begin a request, or go on after the frames that it has made."""
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
