"""An engine over a runner that may copy what is common to prompts, or not."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import Ended, FrameReady
from antiphon.engine.core import EngineCore
from antiphon.engine.model_runner.model_runner import ModelRunner
from antiphon.engine.request import EngineRequest
from antiphon.nn.cpu.cache_spans import CacheSpan
from tests.engine.turns import has_work, read_frames

BLOCK = 16


@dataclass(slots=True)
class CopyingEngine:
    """An engine whose clients read all at once; frames and prompts by name.

    ``kept`` are keys and values of the positions that were prefilled, of each stack, by name.
    """

    runner: ModelRunner[Any]
    core: EngineCore
    frames: dict[str, list[Any]] = field(default_factory=dict)
    kept: dict[str, list[Tensor]] = field(default_factory=dict)
    prompts: dict[str, Prompt] = field(default_factory=dict)

    @classmethod
    def of(cls, runner: ModelRunner[Any], *, copies: bool) -> "CopyingEngine":
        """Begin with an empty prefix cache, over memory in which nothing is left."""
        with torch.inference_mode():
            for stack in runner._caches.stacks:
                stack.tensor.fill_(torch.nan)
        shape = runner.cache
        assert shape.copies_blocks, "it is exact"
        runner.cache = replace(shape, copies_blocks=copies)
        core = EngineCore(runner)
        runner.cache = shape
        return cls(runner, core)

    def add(self, name: str, prompt: Prompt) -> None:
        self.frames[name], self.prompts[name] = [], prompt
        self.core.scheduler.add(EngineRequest(name, prompt))

    def step(self) -> None:
        slots = {each.id: slot for slot, each in self.core.scheduler._slots.running.items()}
        for name, event in self.core.step():
            if isinstance(event, FrameReady):
                self.frames[name].append(np.asarray(event.frame).tolist())
                read_frames(self.core.scheduler, name, 1)
                if name in slots:
                    self.kept[name] = self._held(slots[name], name)
            elif isinstance(event, Ended):
                assert event.reason in ("length", "stop")
        self.core.wake()
        self.core.scheduler.check_integrity()

    def speak(self, *prompts: Prompt) -> list[list[Any]]:
        names = [f"{len(self.frames) + number}" for number in range(len(prompts))]
        for name, prompt in zip(names, prompts, strict=True):
            self.add(name, prompt)
        while has_work(self.core):
            self.step()
        return [self.frames[name] for name in names]

    @property
    def num_hits(self) -> int:
        return self.core.scheduler.snapshot().prefix_cache_hits

    def _held(self, slot: int, name: str) -> list[Tensor]:
        """Return what is kept of a prompt, ``[layers, 2, positions, heads, size]`` a stack."""
        num_positions = self.prompts[name].num_positions
        held = []
        for cache in self.runner._caches.stacks:
            layers = [
                torch.cat(CacheSpan.of(cache, slot, num_positions).read(cache, layer))
                for layer in range(len(cache.tensor))
            ]
            held.append(torch.stack(layers))
        return held


def assert_copies_exactly(runner: ModelRunner[Any], first: Prompt, other: Prompt) -> None:
    """Assert that a prompt makes equal frames, keys and values if it copies common positions.

    ``other``, which is spoken last, has no further block of ``first`` than its common positions.
    """
    num_common = other.num_common_positions
    assert num_common % BLOCK
    assert first.position_keys[:num_common] == other.position_keys[:num_common]
    without = CopyingEngine.of(runner, copies=False)
    expected = [*without.speak(first), *without.speak(other)]
    copying = CopyingEngine.of(runner, copies=True)
    assert [*copying.speak(first), *copying.speak(other)] == expected
    assert all(expected)
    assert copying.num_hits == num_common
    assert without.num_hits == num_common // BLOCK * BLOCK
    for one, same in zip(copying.kept["1"], without.kept["1"], strict=True):
        assert torch.equal(one, same)
