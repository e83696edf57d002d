"""A denoiser that does as it is told, and notes what was asked of it."""

import threading
import weakref
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import Latents
from antiphon.diffusion.protocol import DenoisingWork

DEADLINE_S = 60.0
"""For what must happen at all; how soon is nowhere asserted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What a request is, and where it fails."""

    num_steps: int = 4
    key: Hashable = "small"
    num_bytes: int = 0
    previews: tuple[int, ...] = ()
    fails_in: str = ""
    error: Exception | None = None


@dataclass(slots=True, weakref_slot=True, eq=False)
class State:
    seed: int
    task: Task
    values: NDArray[np.float64]
    step: int = 0


class StubDenoiser:
    """Adds a random number of its seed to a request in each step.

    Attributes:
        batches: the seeds of each step.
        states: of all requests that have begun, by seed; weakly.
        may_step: a step waits for it; set unless a test clears it.
        is_stepping: set while a step waits or computes.
    """

    max_batch = 3

    def __init__(self) -> None:
        self.batches: list[tuple[int, ...]] = []
        self.states: dict[int, weakref.ref[State]] = {}
        self.may_step = threading.Event()
        self.may_step.set()
        self.is_stepping = threading.Event()
        self.is_closed = threading.Event()

    def work(self, prompt: Prompt) -> DenoisingWork:
        task: Task = prompt.data
        return DenoisingWork(
            num_steps=task.num_steps,
            cost=1.0,
            num_bytes=task.num_bytes,
            batch_key=task.key,
            preview_steps=task.previews,
        )

    def begin(self, prompt: Prompt, conditioning: Latents | None) -> State:
        task: Task = prompt.data
        values = np.zeros(3) if conditioning is None else np.array(conditioning.data)
        state = State(prompt.seed, task, values)
        self.states[prompt.seed] = weakref.ref(state)
        _fail(task, "begin")
        return state

    def step(self, states: Sequence[State]) -> None:
        self.is_stepping.set()
        assert self.may_step.wait(DEADLINE_S)
        self.batches.append(tuple(state.seed for state in states))
        for state in states:
            _fail(state.task, "step")
            draw = np.random.default_rng((state.seed, state.step)).standard_normal(3)
            state.values = state.values * 0.5 + draw
            state.step += 1
        self.is_stepping.clear()

    def preview(self, state: State) -> Latents:
        _fail(state.task, "preview")
        return Latents(state.values.copy())

    def finish(self, state: State) -> Latents:
        _fail(state.task, "finish")
        return Latents(state.values)

    def close(self) -> None:
        self.is_closed.set()

    @property
    def num_states(self) -> int:
        return sum(state() is not None for state in self.states.values())


def prompt(seed: int, task: Task | None = None) -> Prompt:
    return Prompt(data=task or Task(), num_tokens=1, seed=seed)


def _fail(task: Task, where: str) -> None:
    if task.fails_in == where:
        raise task.error or RuntimeError("a bug of the model")
