"""Exported hidden states come before the frames that they belong to."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antiphon.contracts.prompt import Piece, Prompt
from antiphon.contracts.types import Ended, FrameReady, Latents, PositionStates, Sampling
from antiphon.engine.async_engine import AsyncEngine
from antiphon.engine.plan import StepPlan
from antiphon.engine.runner import Done, HostRunner, PendingStep

NUM_FRAMES = 3


class Exporter(HostRunner[list[int]]):
    """Makes three frames, and exports a state with each and with the end."""

    def start(self, prompt: Prompt, frames: Sequence[NDArray[Any]]) -> list[int]:
        return [len(frames)]

    def append(self, state: list[int], piece: Piece) -> None:
        raise AssertionError("its text is complete")

    def next_frame(self, state: list[int]) -> NDArray[Any] | None:
        state[0] += 1
        return np.array([state[0]]) if state[0] <= NUM_FRAMES else None

    def launch(self, plan: StepPlan) -> PendingStep:
        output = super().launch(plan).result()
        states = {
            slot: PositionStates(self._states[slot][0] - 1, np.ones((1, 2), np.float32))
            for slot in plan.decode_slots
        }
        return Done(replace(output, hidden_states=states))


async def test_states_come_before_their_frames_and_before_the_end() -> None:
    engine = AsyncEngine(Exporter(1))
    prompt = Prompt(data=None, num_tokens=1, seed=0, sampling=Sampling(max_frames=9))
    items = [item async for item in engine.generate("a", prompt)]
    await engine.close()
    kinds = [type(item) for item in items]
    assert kinds == [*[Latents, FrameReady] * NUM_FRAMES, Latents, Ended]
    starts = [item.data.start for item in items if isinstance(item, Latents)]
    assert starts == [0, 1, 2, 3]
