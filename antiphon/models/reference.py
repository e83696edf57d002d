"""The option that brings a recording to imitate, the same for every family that clones voices."""

import math
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from antiphon.models.prepared import PreparedVoice


def _reference(value: Any) -> NDArray[np.float32] | PreparedVoice:
    if isinstance(value, PreparedVoice):
        return value
    is_recording = isinstance(value, np.ndarray) and value.dtype == np.float32 and value.ndim == 1
    if not is_recording or not len(value) or not math.isfinite(np.abs(value).max()):
        raise PydanticCustomError(
            "recording", "it must be a prepared voice, or finite samples: float32, mono, not empty"
        )
    recording: NDArray[np.float32] = value
    return recording


Reference = Annotated[
    NDArray[np.float32] | PreparedVoice,
    PlainValidator(_reference),
    # On the wire it is where the recording is: requests bring no samples.
    WithJsonSchema({"type": "string", "minLength": 1}),
]
"""Samples of a recording, ``[num_samples]`` at the model's rate; or a voice prepared from one."""
