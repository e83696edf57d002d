"""Language models of families on tiny checkpoints of random weights."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from antiphon.contracts.prompt import Prompt
from antiphon.engine.model_runner.model_runner import ModelRunner


@dataclass(frozen=True)
class LanguageModel:
    """A family's language model.

    Attributes:
        load: function that returns a runner.
        prompts: function that returns prompts of every kind by slot, of a checkpoint; slots 0 to 3.
        make_ending: function that changes a checkpoint's weights so that its speech ends soon;
            ``None``: its output has no end but its limit.
        task: task that its checkpoint is made for; ``None``: the default.
        num_batch_codes: number of codes of a frame that are the same in a batch, which rounds
            differently; ``None``: all.
        num_int8_scores: number of scores that a step with int8 weights writes, each to the bit as
            for a request alone; 0: they may differ.
    """

    load: Callable[..., ModelRunner[Any]]
    prompts: Callable[[Path], Mapping[int, Prompt]]
    make_ending: Callable[[Path], None] | None = None
    task: str | None = None
    num_batch_codes: int | None = None
    num_int8_scores: int = 0
