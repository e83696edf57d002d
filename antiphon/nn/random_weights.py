"""Random numbers for checkpoints that are made: bit-identical on any machine.

Only the raw output of PCG64 is guaranteed to be stable over versions of NumPy; it is scaled here.
"""

import math
import zlib
from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from antiphon.errors import ModelLoadError

Dtype: TypeAlias = Literal["float32", "bfloat16"]


def check_arguments(**given: tuple[str, Sequence[str]]) -> None:
    """Refuse unknown arguments, each given with its known values; raises ModelLoadError."""
    for name, (value, known) in given.items():
        if value not in known:
            raise ModelLoadError(f"There is no {name} '{value}'; there are: {', '.join(known)}.")


def random_values(
    name: str, shape: tuple[int, ...], std: float, seed: int = 0
) -> NDArray[np.float32]:
    """Return uniform values around 0, which depend on the name and the seed alone."""
    bits = np.random.PCG64(np.random.SeedSequence((seed, zlib.crc32(name.encode()))))
    count = math.prod(shape)
    words = bits.random_raw((count + 1) // 2).astype("<u8", copy=False).view("<u4")[:count]
    # The upper 24 bits, as a multiple of 2**-23 in [-1, 1): exact in float32.
    unit = (words >> 8).astype(np.float32) * np.float32(2.0**-23) - np.float32(1.0)
    return (unit * np.float32(std * 3**0.5)).reshape(shape)
