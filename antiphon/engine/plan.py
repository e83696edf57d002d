"""What crosses between scheduler and runner in one step."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from antiphon.models.base import Piece, Prompt


@dataclass(frozen=True, slots=True)
class Start:
    """A request enters a slot."""

    slot: int
    prompt: Prompt


@dataclass(frozen=True, slots=True)
class Append:
    """More text for the request in a slot."""

    slot: int
    piece: Piece


@dataclass(frozen=True, slots=True)
class StepPlan:
    """From scheduler to runner.

    Attributes:
        releases: slots whose requests are gone; done first, before any start.
        starts: slots to be filled with new requests.
        appends: text that has arrived for requests in slots, those just started among them.
        slots: slots that make one frame in this step.
    """

    releases: tuple[int, ...] = ()
    starts: tuple[Start, ...] = ()
    appends: tuple[Append, ...] = ()
    slots: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class StepOutput:
    """From runner to scheduler: each planned slot is in exactly one of frames, stopped, faults.

    Attributes:
        frames: the frame that a slot made.
        stopped: slots whose model said that it has finished, instead of making a frame.
        lengths: slots whose frame is their last one, since the runner ends them at a limit.
        faults: slots whose numbers went bad; they end with an error, the others do not notice.
    """

    frames: Mapping[int, Any]
    stopped: frozenset[int] = frozenset()
    lengths: frozenset[int] = frozenset()
    faults: frozenset[int] = frozenset()
