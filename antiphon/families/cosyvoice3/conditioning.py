"""What the decoder stage is told of a request's voice, as data that crosses processes."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from antiphon.families.cosyvoice3.config import MEL_FRAMES_PER_TOKEN


def reference_arrays(
    tokens: NDArray[np.int64], mel: NDArray[np.float32], speaker: NDArray[np.float32]
) -> dict[str, NDArray[Any]]:
    """Return the conditioning of a request.

    Args:
        tokens: of the recording, ``[num_tokens]``; may be empty.
        mel: of it, ``[2 * num_tokens, num_mels]``.
        speaker: ``[speaker_size]``.
    """
    assert len(mel) == MEL_FRAMES_PER_TOKEN * len(tokens)
    return {"tokens": tokens, "mel": mel, "speaker": speaker}
