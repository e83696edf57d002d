"""A token on its way from an autoregressive stage to a detokenizer, as a frame of int64."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

MAX_LOGPROBS = 20
FRAME_SIZE = 2 + 2 * MAX_LOGPROBS


@dataclass(frozen=True, slots=True)
class TokenFrame:
    """A drawn token, and what else was likely.

    Attributes:
        logprob: natural logarithm of its probability, before penalties and temperature; NaN if the
            request asked for none.
        top_tokens: ids of the likeliest ones, the likeliest first, ``[MAX_LOGPROBS]``; -1: none.
        top_logprobs: theirs, f32 ``[MAX_LOGPROBS]``.
    """

    token: int
    logprob: float
    top_tokens: NDArray[np.int64]
    top_logprobs: NDArray[np.float32]

    @classmethod
    def of(cls, frame: NDArray[np.int64]) -> Self:
        """Read a frame: token, bits of its f32 logprob, top tokens, bits of theirs.

        Args:
            frame: int64 ``[FRAME_SIZE]``; of a model without logprobs any other size, with
                the token first.
        """
        if len(frame) != FRAME_SIZE:
            nothing = np.full(MAX_LOGPROBS, -1), np.full(MAX_LOGPROBS, np.nan, np.float32)
            return cls(int(frame[0]), float("nan"), *nothing)
        logprobs = np.ascontiguousarray(frame.astype(np.int32)).view(np.float32)
        split = 2 + MAX_LOGPROBS
        return cls(int(frame[0]), float(logprobs[1]), frame[2:split], logprobs[split:])

    def packed(self) -> NDArray[np.int64]:
        """Return the frame, int64 ``[FRAME_SIZE]``."""
        logprobs = np.concatenate(([self.logprob], self.top_logprobs)).astype(np.float32)
        bits = logprobs.view(np.int32).astype(np.int64)
        return np.concatenate(([self.token], bits[:1], self.top_tokens, bits[1:]))
