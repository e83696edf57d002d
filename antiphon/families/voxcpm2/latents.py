"""Latents on their way as whole numbers: a float32's bits travel as an int64, exactly.

A frame is whether it is the last one, 0 or 1, then the bits of its patch.
"""

import numpy as np
from numpy.typing import NDArray

Patches = NDArray[np.float32]
"""``[num_patches, patch_size * feature_size]``."""
REFERENCE, CONTINUED = "reference", "continued"
"""Outputs of the voice encoder: patches to refer to, and those that speech continues."""


def frames_of(patches: Patches) -> NDArray[np.int64]:
    """Return frames that hold these patches, none of them the last of speech."""
    bits = np.ascontiguousarray(patches, np.float32).view(np.int32).astype(np.int64)
    return np.pad(bits, ((0, 0), (1, 0)))


def patches_of(frames: NDArray[np.int64]) -> Patches:
    """Return the patches of frames, ``[num_frames, frame_size]``."""
    bits = np.ascontiguousarray(frames[:, 1:].astype(np.int32))
    return bits.view(np.float32)
