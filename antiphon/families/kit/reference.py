"""Options with a recording, shared by all families that clone voices."""

import math
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from antiphon.contracts.prepared_voice import PreparedVoice


def _recording(value: Any) -> NDArray[np.float32]:
    is_recording = isinstance(value, np.ndarray) and value.dtype == np.float32 and value.ndim == 1
    if not is_recording or not len(value) or not math.isfinite(np.abs(value).max()):
        raise PydanticCustomError(
            "recording", "it must be finite samples: float32, mono, not empty"
        )
    recording: NDArray[np.float32] = value
    return recording


def _reference(value: Any) -> NDArray[np.float32] | PreparedVoice:
    if isinstance(value, PreparedVoice):
        return value
    try:
        return _recording(value)
    except PydanticCustomError as error:
        raise PydanticCustomError(
            "recording", "it must be a prepared voice, or finite samples: float32, mono, not empty"
        ) from error


# On the wire, the option is an address: requests bring no samples.
_ADDRESS = WithJsonSchema({"type": "string", "minLength": 1})
Reference = Annotated[NDArray[np.float32] | PreparedVoice, PlainValidator(_reference), _ADDRESS]
"""Samples of a recording, ``[num_samples]`` at the model's rate; or a voice prepared from one."""
ContinuedRecording = Annotated[NDArray[np.float32], PlainValidator(_recording), _ADDRESS]
"""Samples of a recording that the speech continues, at the model's rate; never a prepared voice."""
