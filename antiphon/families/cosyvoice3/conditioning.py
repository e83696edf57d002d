"""Voice conditioning of the decoder stage, as arrays that cross process boundaries."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from antiphon.families.cosyvoice3.config import MEL_FRAMES_PER_TOKEN


def reference_arrays(
    tokens: NDArray[np.int64], mel: NDArray[np.float32], speaker: NDArray[np.float32]
) -> dict[str, NDArray[Any]]:
    """Return the conditioning of a request.

    Args:
        tokens: reference tokens, ``[num_tokens]``; may be empty.
        mel: reference mel frames, ``[2 * num_tokens, num_mels]``.
        speaker: speaker vector, ``[speaker_size]``.
    """
    assert len(mel) == MEL_FRAMES_PER_TOKEN * len(tokens)
    return {"tokens": tokens, "mel": mel, "speaker": speaker}
