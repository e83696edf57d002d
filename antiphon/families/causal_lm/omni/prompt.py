"""Talker prompts from hidden states of the thinker, and host-side state of an answer in a slot."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from antiphon.contracts.chat import AnswerVoiceCapabilities, AnswerVoiceRequest
from antiphon.contracts.family import LoadContext
from antiphon.contracts.prompt import Piece, Prompt
from antiphon.contracts.types import PositionStates, Sampling, Voice
from antiphon.families.causal_lm.omni.config import SAMPLE_RATE_HZ, TalkerTokens, load_omni_config
from antiphon.families.causal_lm.omni.voices import load_voices

MAX_CODES = 4096
"""Published maximum number of codes in an answer."""
SAMPLING = Sampling(
    temperature=0.9, top_p=0.8, top_k=40, repetition_penalty=1.05, max_frames=MAX_CODES
)
"""Published defaults."""
_SAMPLE_POSITIONS = 4
INSTRUCTIONS = (
    "You are Qwen, a virtual human developed by the Qwen Team, Alibaba Group, capable of"
    " perceiving auditory and visual inputs, as well as generating text and speech."
)
"""System prompt of the model's authors, verbatim: the talker was trained with it."""


@dataclass(frozen=True, slots=True, eq=False)
class TalkerPrompt:
    """Prompt of an answer.

    Attributes:
        states: hidden states of the thinker's prompt, f32 ``[num_positions, embedding_size]``.
    """

    states: NDArray[np.float32]
    voice: str


@dataclass(slots=True, eq=False)
class TalkerRequest:
    """Host-side state of a request in a slot.

    Attributes:
        ids: codec ids read by the talker, one per position: masks in the prompt, two ids that
            begin speech, and the codes made before the request was opened.
        num_codes: number of codes made before the request was opened.
        num_replies: number of answer states received; the n-th code is read with the n-th state.
        replies: first answer states, up to ``num_codes``, of a resumed request.
        is_closed: whether all answer states have been received.
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
        """Start an answer, or resume it after the codes made before."""
        masks = np.full(len(prompt.states), tokens.codec_mask)
        begins = (tokens.codec_pad, tokens.codec_start)
        return cls(prompt, np.concatenate((masks, begins, codes)), len(codes))

    def append(self, piece: Piece, after: NDArray[np.float32]) -> tuple[int, NDArray[np.float32]]:
        """Add a piece; return the number of its first state, and the states.

        Args:
            piece: states, f32 ``[num_states, embedding_size]``, or ``None`` at the end.
            after: states read after the last one, of the same shape.
        """
        assert not self.is_closed, "states came after the end"
        self.is_closed = piece.num_frames_allowed is None
        first, states = self.num_replies, after if self.is_closed else piece.data
        self.num_replies += len(states)
        if first < self.num_codes:
            self.replies.append(states)
        return first, states

    def reply(self, number: int) -> NDArray[np.float32]:
        """Return the state read with an earlier code."""
        replies = np.concatenate(self.replies)
        row: NDArray[np.float32] = replies[min(number, len(replies) - 1)]
        return row


class OmniVoicePrompter:
    """An `antiphon.contracts.chat.AnswerVoicePrompter`."""

    def __init__(self, context: LoadContext) -> None:
        """Read a checkpoint's configuration and its speakers; raises ModelLoadError."""
        config = load_omni_config(context.checkpoint)
        names = [*load_voices(context.checkpoint, config)]
        nothing = np.zeros((_SAMPLE_POSITIONS, config.talker.embedding_size), np.float32)
        self.capabilities = AnswerVoiceCapabilities(
            sample_request=AnswerVoiceRequest(PositionStates(0, nothing), names[0]),
            sample_rate_hz=SAMPLE_RATE_HZ,
            voices=tuple(Voice(id=name, name=name) for name in names),
            instructions=INSTRUCTIONS,
        )

    def build(self, request: AnswerVoiceRequest, seed: int) -> Prompt:
        states = request.states.states
        return Prompt(
            data=TalkerPrompt(states, request.voice),
            num_tokens=len(states),
            seed=seed,
            sampling=SAMPLING,
            num_frames_allowed=0,
            conditioning={"voice": request.voice, "seed": seed},
            num_positions=len(states) + 1,
        )

    def piece(self, states: PositionStates | None, num_before: int) -> Piece:
        if states is None:
            return Piece(data=None, num_frames_allowed=None)
        num_states = len(states.states)
        return Piece(
            data=states.states, num_frames_allowed=num_before + num_states, num_tokens=num_states
        )
