"""Denoisers for ranks: those of families on a CPU, and one that tells of its rank."""

import os
from collections.abc import Sequence
from typing import Any

from antiphon.contracts.family import LoadContext, StageKind
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import Latents
from antiphon.diffusion.protocol import Denoiser, DenoisingWork
from antiphon.errors import InvalidRequestError
from antiphon.families.registry import checkpoint_family


def load_of_family(context: LoadContext) -> Denoiser:
    """Load the denoiser of a checkpoint; diffusers takes the CPU for an accelerator."""
    import torch

    torch.accelerator.device_count = lambda: 1
    assert context.path is not None
    stages = [
        stage
        for task in checkpoint_family(context.path).tasks.values()
        for stage in task.pipeline
        if stage.kind is StageKind.DIFFUSION
    ]
    denoiser: Denoiser = stages[0].factory.resolve()(context)
    return denoiser


class TellingDenoiser:
    """Does as prompts say; its latents tell what all ranks hold."""

    max_batch = 3

    def __init__(self, context: LoadContext) -> None:
        self.num_states = 0

    def work(self, prompt: Prompt) -> DenoisingWork:
        return DenoisingWork(num_steps=2, cost=1.0)

    def begin(self, prompt: Prompt, conditioning: Latents | None) -> Any:
        if prompt.data == "refused":
            raise InvalidRequestError("Not this one.", param="prompt")
        return _Counted(self, prompt.data)

    def step(self, states: Sequence[Any]) -> None:
        import torch

        for state in states:
            if state.data == "dies" and torch.distributed.get_rank() == 1:
                os._exit(1)
            if state.data == "fails" and torch.distributed.get_rank() == 1:
                raise RuntimeError("one rank alone")
            state.num_steps += 1

    def preview(self, state: Any) -> Latents:
        """Return how many states each rank holds."""
        import torch

        mine = torch.tensor([self.num_states])
        counts = [torch.empty_like(mine) for _ in range(torch.distributed.get_world_size())]
        torch.distributed.all_gather(counts, mine)
        return Latents([int(count) for count in counts])

    def finish(self, state: Any) -> Latents:
        return Latents(state.num_steps)

    def close(self) -> None:
        """Nothing to free."""


class _Counted:
    def __init__(self, denoiser: TellingDenoiser, data: str) -> None:
        self.data = data
        self.num_steps = 0
        self._denoiser = denoiser
        denoiser.num_states += 1

    def __del__(self) -> None:
        self._denoiser.num_states -= 1
