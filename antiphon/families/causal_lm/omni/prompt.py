"""Talker prompts from hidden states of the thinker."""

import numpy as np

from antiphon.contracts.chat import AnswerVoiceCapabilities, AnswerVoiceRequest
from antiphon.contracts.family import LoadContext
from antiphon.contracts.prompt import Piece, Prompt
from antiphon.contracts.types import PositionStates, Voice
from antiphon.families.causal_lm.omni.config import SAMPLE_RATE_HZ, load_omni_config
from antiphon.families.causal_lm.omni.talker import SAMPLING
from antiphon.families.causal_lm.omni.talker_request import TalkerPrompt
from antiphon.families.causal_lm.omni.voices import load_voices

_SAMPLE_POSITIONS = 4
INSTRUCTIONS = (
    "You are Qwen, a virtual human developed by the Qwen Team, Alibaba Group, capable of"
    " perceiving auditory and visual inputs, as well as generating text and speech."
)
"""System prompt of the model's authors, verbatim: the talker was trained with it."""


class OmniVoicePrompter:
    """An `antiphon.contracts.chat.AnswerVoicePrompter`."""

    def __init__(self, context: LoadContext) -> None:
        """Read a checkpoint's configuration and its speakers.

        Raises:
            ModelLoadError: a file is missing or invalid.
        """
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
