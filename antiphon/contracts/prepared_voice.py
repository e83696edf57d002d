"""A prepared voice for cloning: not the recording, but the arrays that a family made of it.

Only files need ``safetensors``, which comes with the families that clone voices.
"""

import hashlib
import math
import os
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationError

from antiphon.contracts.well_formed import is_encodable
from antiphon.errors import InvalidRequestError

_METADATA_KEY = "antiphon_voice"
_ARRAYS: Mapping[str, tuple[type[np.generic], int]] = {
    "speaker_embedding": (np.float32, 1),
    "ref_codes": (np.int64, 2),
    "ref_features": (np.float32, 2),
}
"""Type and number of dimensions of each array."""


class _Metadata(BaseModel):
    """Metadata of a file beside its arrays."""

    model_config = ConfigDict(extra="forbid", strict=True)

    version: Literal[1] = 1
    name: str
    family: str
    ref_text: str | None


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedVoice:
    """A voice, ready to be part of prompts. Arrays are copied and cannot be written to.

    Attributes:
        family: Family that made the arrays; no other can use them.
        ref_text: Transcript of the recording, for families that continue it.
        speaker_embedding: Speaker vector, shape ``[D]``.
        ref_codes: the recording as codes, shape ``[frames, Q]``.
        ref_features: the recording as features that are no codes, shape ``[frames, D]``.
    """

    name: str
    family: str
    ref_text: str | None = None
    speaker_embedding: NDArray[np.float32] | None = field(default=None, repr=False)
    ref_codes: NDArray[np.int64] | None = field(default=None, repr=False)
    ref_features: NDArray[np.float32] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Check all of it; raises InvalidRequestError naming the field that is wrong."""
        if not self.name or not self.family:
            raise _wrong("a voice has a name and a family")
        if not all(map(is_encodable, (self.name, self.family, self.ref_text or ""))):
            raise _wrong("its texts are not valid Unicode")
        if not self._arrays:
            raise _wrong("a voice has a speaker embedding, codes or features")
        for name, array in self._arrays.items():
            object.__setattr__(self, name, _checked(name, array))

    @property
    def _arrays(self) -> dict[str, NDArray[Any]]:
        given = (self.speaker_embedding, self.ref_codes, self.ref_features)
        arrays = zip(_ARRAYS, given, strict=True)
        return {name: array for name, array in arrays if array is not None}

    @cached_property
    def content_hash(self) -> str:
        """A hash of everything but the name."""
        digest = hashlib.sha256()
        for part in (self.family, self.ref_text):
            encoded = (part or "").encode()
            digest.update(f"{part is None} {len(encoded)} ".encode() + encoded)
        for array in (self.speaker_embedding, self.ref_codes):
            digest.update(f"{None if array is None else array.shape} ".encode())
            if array is not None:
                digest.update(array.astype(array.dtype.newbyteorder("<")).tobytes())
        if (features := self.ref_features) is not None:  # voices without keep their hash
            digest.update(f"{features.shape} ".encode() + features.astype("<f4").tobytes())
        return digest.hexdigest()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a safetensors file; a reader at ``path`` sees the old or the new one."""
        import safetensors.numpy

        metadata = _Metadata(name=self.name, family=self.family, ref_text=self.ref_text)
        content = safetensors.numpy.save(self._arrays, {_METADATA_KEY: metadata.model_dump_json()})
        path = Path(path)
        unfinished = path.with_name(f".{uuid.uuid4().hex}.tmp")
        try:
            unfinished.write_bytes(content)
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read what `save` wrote; raises InvalidRequestError."""
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, framework="numpy") as file:
                written = (file.metadata() or {}).get(_METADATA_KEY)
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (OSError, SafetensorError) as error:
            raise _wrong(f"the file cannot be read: {error}", path) from error
        if written is None:
            raise _wrong("the file is not that of a voice", path)
        try:
            metadata = _Metadata.model_validate_json(written)
        except ValidationError as error:
            raise _wrong("its description is damaged, or of a later version", path) from error
        unknown = arrays.keys() - _ARRAYS.keys()
        if unknown:
            raise _wrong(f"unknown arrays: {', '.join(sorted(unknown))}", path)
        try:
            return cls(**metadata.model_dump(exclude={"version"}), **arrays)
        except InvalidRequestError as error:
            raise _wrong(error.message, path) from error


def _wrong(reason: str, path: str | os.PathLike[str] | None = None) -> InvalidRequestError:
    where = "" if path is None else f" in {Path(path).name}"
    return InvalidRequestError(f"Invalid voice{where}: {reason}", param="voice")


def _checked(name: str, array: NDArray[Any]) -> NDArray[Any]:
    """Return a copy that cannot be written to, of finite numbers, or of codes."""
    dtype, num_dimensions = _ARRAYS[name]
    if array.dtype != dtype or array.ndim != num_dimensions or math.prod(array.shape) == 0:
        raise _wrong(
            f"'{name}' must have {num_dimensions} dimension(s) of {dtype.__name__}, none empty; "
            f"it has shape {list(array.shape)} of {array.dtype}"
        )
    if not np.isfinite(array).all():
        raise _wrong(f"'{name}' has values that are not finite numbers")
    if dtype is np.int64 and (array < 0).any():
        raise _wrong(f"'{name}' has negative values")
    copy = np.array(array, order="C")
    copy.flags.writeable = False
    return copy
