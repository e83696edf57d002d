"""Snake activation for use inside kernels, and rounding of their sums."""

import triton
import triton.language as tl


@triton.jit
def snake_of(x, frequency, amplitude) -> tl.tensor:
    """Return ``x + amplitude * sin(frequency * x)^2``, all float32.

    The square of a sine has period pi: the angle is reduced to within half of that around zero,
    where a polynomial is as exact as float32, in a dozen instructions without a branch.
    """
    angle = x * frequency
    turns = (angle * 0.3183098861837907 + 12582912.0) - 12582912.0  # rounds to an integer
    angle = angle - turns * 3.140625
    angle = angle - turns * 0.0009676535897932  # the remainder of pi
    square = angle * angle
    wave = 2.59927819e-06
    wave = wave * square - 1.98062020e-04
    wave = wave * square + 8.33301033e-03
    wave = wave * square - 1.66666567e-01
    wave = wave * square * angle + angle
    return x + amplitude * wave * wave


@triton.jit
def narrowed(x, dtype: tl.constexpr) -> tl.tensor:
    """Round float32 to the stored type; values beyond float16's range are clamped."""
    if dtype == tl.float16:
        x = tl.minimum(tl.maximum(x, -65504.0), 65504.0)
    return x.to(dtype)
