"""What a captured step must not do, found without a GPU: ask the device, or bring it numbers."""

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from antiphon.engine.model_runner.ar_model import ARModel

_ASKING = ("_local_scalar_dense", "is_nonzero", "nonzero", "masked_select", "equal", "lift_fresh")
"""Operators that wait for the device, or bring numbers of the host to it."""


class AskNothing(TorchDispatchMode):
    """Refuses operators that ask the device, or wait for it."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __torch_dispatch__(
        self, function: Any, types: Any, arguments: Any = (), options: Any = None
    ) -> Any:
        assert function.__name__.split(".")[0] not in _ASKING, f"{function} in a step"
        return function(*arguments, **(options or {}))


@torch.inference_mode()
def step_asking_nothing(model: ARModel[Any]) -> None:
    """Make two frames in two slots, but for the layers over the cache; refuse what asks."""
    slots = torch.tensor([0, 2])
    before = model.slots.frames[slots].tolist()
    shape, hidden = model.sampling_shape((0, 2)), torch.randn(2, model.width)
    with AskNothing():
        for _ in range(2):
            inputs = model.embed(slots)
            frames = model.sample(hidden, inputs, shape)
            model.commit(frames, inputs, is_replay=False)
    assert model.slots.frames[slots].tolist() == [each + 2 for each in before]
