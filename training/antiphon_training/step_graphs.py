"""Training steps as CUDA graphs: a step of thousands of small kernels costs the host one launch."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass

import torch
from torch import Tensor

Losses = dict[str, Tensor]
Step = Callable[[dict[str, Tensor]], Losses]
_EAGER_STEPS = 3
"""Steps before a capture: they fill caches and states of optimizers."""


@dataclass(slots=True)
class _Captured:
    num_eager: int = 0
    graph: torch.cuda.CUDAGraph | None = None
    inputs: dict[str, Tensor] | None = None
    losses: Losses | None = None


class StepGraphs:
    """Runs steps, on a GPU as one graph per kind of step and shape of its inputs."""

    def __init__(self, device: torch.device) -> None:
        self._is_gpu = device.type == "cuda"
        self._captured: dict[Hashable, _Captured] = {}
        self._pool = torch.cuda.graph_pool_handle() if self._is_gpu else None

    def run(self, kind: str, step: Step, inputs: dict[str, Tensor]) -> Losses:
        """Run a step; its losses are valid until the next step of any kind.

        Args:
            kind: name of the step.
            step: function without control flow on values of tensors.
            inputs: tensors on the device.
        """
        if not self._is_gpu:
            return step(inputs)
        shapes = tuple(tuple(each.shape) for each in inputs.values())
        captured = self._captured.setdefault((kind, shapes), _Captured())
        if captured.num_eager < _EAGER_STEPS:
            captured.num_eager += 1
            return _beside(step, inputs)
        if captured.graph is None:
            captured.inputs = {name: each.clone() for name, each in inputs.items()}
            captured.graph = torch.cuda.CUDAGraph()
            torch.cuda.synchronize()
            # Other threads, such as those that watch replicas, may use the device meanwhile.
            with torch.cuda.graph(
                captured.graph, pool=self._pool, capture_error_mode="thread_local"
            ):
                captured.losses = step(captured.inputs)
        assert captured.inputs is not None
        assert captured.losses is not None
        for name, each in captured.inputs.items():
            each.copy_(inputs[name])
        captured.graph.replay()
        return captured.losses


def _beside(step: Step, inputs: dict[str, Tensor]) -> Losses:
    """Run on a stream of its own, as a capture does, so that nothing refers to the default one."""
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        losses = step(inputs)
    torch.cuda.current_stream().wait_stream(stream)
    return losses
