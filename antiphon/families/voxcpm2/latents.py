"""Latents as frames of integers: the bits of each float32 are stored exactly in an int64.

A frame is the end flag, 0 or 1, followed by the bits of its patch.
"""

import numpy as np
from numpy.typing import NDArray

Patches = NDArray[np.float32]
"""Patches, ``[num_patches, patch_size * feature_size]``."""
REFERENCE, CONTINUED = "reference", "continued"
"""Outputs of the voice encoder: patches for reference, and patches for continuation."""


def frames_of(patches: Patches) -> NDArray[np.int64]:
    """Return the frames of patches, with end flags of 0."""
    bits = np.ascontiguousarray(patches, np.float32).view(np.int32).astype(np.int64)
    return np.pad(bits, ((0, 0), (1, 0)))


def patches_of(frames: NDArray[np.int64]) -> Patches:
    """Return the patches of frames, ``[num_frames, frame_size]``."""
    bits = np.ascontiguousarray(frames[:, 1:].astype(np.int32))
    return bits.view(np.float32)
