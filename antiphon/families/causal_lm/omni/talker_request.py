"""What the talker reads of an answer, and what the host keeps of one in a slot."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from antiphon.contracts.prompt import Piece
from antiphon.families.causal_lm.omni.config import TalkerTokens

MAX_CODES = 4096
"""Of one answer, as published."""


@dataclass(frozen=True, slots=True, eq=False)
class TalkerPrompt:
    """An answer's beginning.

    Attributes:
        states: that the thinker tells of its prompt, f32 ``[num_positions, embedding_size]``.
        voice: by name.
    """

    states: NDArray[np.float32]
    voice: str


@dataclass(slots=True, eq=False)
class TalkerRequest:
    """A request in a slot.

    Attributes:
        ids: of the codes that it reads, one a position: a mask where there is none, two that begin
            speech, and codes that it had made when it was opened.
        num_codes: that it had made then.
        num_replies: states of the answer that have arrived; the n-th code is made beside the n-th.
        replies: the first of them, as far as codes were made beside them before.
        is_closed: whether no more arrive.
    """

    prompt: TalkerPrompt
    ids: NDArray[np.int64]
    num_codes: int
    num_replies: int = 0
    replies: list[NDArray[np.float32]] = field(default_factory=list)
    is_closed: bool = False

    @classmethod
    def of(
        cls, prompt: TalkerPrompt, codes: NDArray[np.int64], tokens: TalkerTokens
    ) -> "TalkerRequest":
        """Begin an answer, or go on after the codes that were made."""
        masks = np.full(len(prompt.states), tokens.codec_mask)
        begins = (tokens.codec_pad, tokens.codec_start)
        return cls(prompt, np.concatenate((masks, begins, codes)), len(codes))

    def append(self, piece: Piece, after: NDArray[np.float32]) -> tuple[int, NDArray[np.float32]]:
        """Take in a piece; return the number of its first state, and the states.

        Args:
            piece: with states, f32 ``[num_states, embedding_size]``, or ``None`` at the end.
            after: what is read after the last one, likewise.
        """
        assert not self.is_closed, "states came after the end"
        self.is_closed = piece.num_frames_allowed is None
        first, states = self.num_replies, after if self.is_closed else piece.data
        self.num_replies += len(states)
        if first < self.num_codes:
            self.replies.append(states)
        return first, states

    def reply(self, number: int) -> NDArray[np.float32]:
        """Return the state beside a code that was made before."""
        replies = np.concatenate(self.replies)
        row: NDArray[np.float32] = replies[min(number, len(replies) - 1)]
        return row
