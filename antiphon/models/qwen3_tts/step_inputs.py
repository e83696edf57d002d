"""What the host hands to the language model: requests for slots, and its decisions on a step."""

from dataclasses import dataclass

from antiphon.models.qwen3_tts.prompt_layout import Ids, Qwen3TTSPrompt
from antiphon.types import Sampling


@dataclass(frozen=True, slots=True)
class SlotStart:
    """A request that gets a slot.

    Attributes:
        text: beside its frames, as far as it is known.
    """

    slot: int
    seed: int
    sampling: Sampling
    prompt: Qwen3TTSPrompt
    text: Ids


@dataclass(frozen=True, slots=True)
class Prefill:
    """A prompt to be read into a slot.

    Attributes:
        text: beside begin-of-speech and the reference's frames but the last, padded where it has
            ended: as many ids as there are reference frames.
    """

    slot: int
    prompt: Qwen3TTSPrompt
    text: Ids


@dataclass(frozen=True, slots=True)
class StepShape:
    """All that the host decides in a step.

    Attributes:
        num_visible: at least the positions that the fullest slot will then hold.
        talker_top_k: at least the largest in use.
        predictor_top_k: likewise.
    """

    num_rows: int
    num_visible: int
    talker_top_k: int
    predictor_top_k: int
    uses_top_p: bool


@dataclass(frozen=True, slots=True)
class PrefillShape:
    """All that the host decides when prompts are read together."""

    num_rows: int
    num_positions: int
