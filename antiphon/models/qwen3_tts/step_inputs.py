"""What the host hands to the language model: requests for slots, and its decisions on a step."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from antiphon.models.qwen3_tts.input_ids import Codes, InputIds
from antiphon.models.qwen3_tts.prompt_layout import Ids
from antiphon.types import Sampling


@dataclass(frozen=True, slots=True, eq=False)
class SlotStart:
    """A request that gets a slot.

    Attributes:
        talker_sampling: of group 0.
        predictor_sampling: of the groups after it.
        next_position: of the input that the slot is stepped, or replayed, with first.
        next_frame: number of the frame that comes of it.
        lead: frames before that one: the reference's, and those made if they are not replayed.
        made: frames that it has made before it lost a slot.
        text: beside its frames from the first one on, as far as it is known.
    """

    slot: int
    seed: int
    talker_sampling: Sampling
    predictor_sampling: Sampling
    next_position: int
    next_frame: int
    lead: Codes
    made: Codes
    text: Ids


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """Positions to be read into a slot; those before them are there.

    Attributes:
        start: the first position.
        speaker: vector of the columns that ask for it.
    """

    slot: int
    start: int
    columns: InputIds
    speaker: NDArray[np.float32] | None

    @property
    def num_positions(self) -> int:
        return len(self.columns.text)


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
class ReadingShape:
    """All that the host decides in a pass over prompts."""

    num_tokens: int
