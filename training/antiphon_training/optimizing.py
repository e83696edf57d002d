"""Steps of an optimizer that a broken gradient cannot harm, and averages of weights."""

import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

_MAX_NORM = 10.0
_AVERAGE_DECAY = 0.999


def adamw(parameters: Sequence[nn.Parameter], rate: float) -> torch.optim.AdamW:
    """Return an optimizer that decays weights only, not biases and factors."""
    groups: list[dict[str, Any]] = [
        {"params": [each for each in parameters if each.ndim >= 2], "weight_decay": 0.01},
        {"params": [each for each in parameters if each.ndim < 2], "weight_decay": 0.0},
    ]
    device = parameters[0].device
    return torch.optim.AdamW(
        groups,
        torch.tensor(rate, device=device),
        betas=(0.8, 0.99),
        fused=True,
        capturable=device.type == "cuda",
    )


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Set the learning rate, a tensor on the device: graphs read it there."""
    for group in optimizer.param_groups:
        group["lr"].fill_(rate)


class Learner:
    """Parameters with an optimizer of their own.

    Attributes:
        gradients: gradients of all parameters as one tensor, which replicas add up in one call.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], optimizer: torch.optim.AdamW) -> None:
        self.parameters, self.optimizer = parameters, optimizer
        sizes = [each.numel() for each in self.parameters]
        self.gradients = torch.zeros(sum(sizes), device=self.parameters[0].device)
        ends = itertools.accumulate(sizes)
        for each, size, end in zip(self.parameters, sizes, ends, strict=True):
            each.grad = self.gradients[end - size : end].view_as(each)

    def step(self, num_replicas: int = 1, max_norm: float = _MAX_NORM) -> Tensor:
        """Take a step with clipped gradients, or none if a gradient is not finite.

        The host waits for nothing: fused optimizers read scale and flag on the device, as with a
        gradient scaler. Returns the gradient's norm before clipping.

        Args:
            num_replicas: replicas whose gradients were added up.
            max_norm: largest norm of the gradients' mean.
        """
        norm: Tensor = torch.linalg.vector_norm(self.gradients) / num_replicas
        scale = (norm / max_norm).clamp(min=1.0).nan_to_num(1.0) * num_replicas
        self.optimizer.grad_scale = scale  # type: ignore[attr-defined]
        self.optimizer.found_inf = (~torch.isfinite(norm)).float()  # type: ignore[attr-defined]
        self.optimizer.step()
        return norm


def derive(loss: Tensor, learners: Sequence[Learner], *, keeps_graph: bool = False) -> None:
    """Set the gradients of some learners to those of a loss; other parameters get none."""
    for each in learners:
        each.gradients.zero_()
    parameters = [parameter for each in learners for parameter in each.parameters]
    torch.autograd.backward(loss, inputs=parameters, retain_graph=keeps_graph)


class WeightAverage:
    """Moving average of a model's parameters, which sounds better than any one step."""

    def __init__(self, model: nn.Module) -> None:
        self._average = {
            name: each.detach().clone().float() for name, each in model.named_parameters()
        }

    @torch.no_grad()
    def update(self, model: nn.Module, step: int) -> None:
        weight = 1 - min(_AVERAGE_DECAY, (1 + step) / (10 + step))
        current = [each.detach() for each in model.parameters()]
        torch._foreach_lerp_(list(self._average.values()), current, weight)

    def state(self) -> dict[str, Tensor]:
        return self._average

    def restore(self, state: dict[str, Tensor]) -> None:
        for name, value in self._average.items():
            value.copy_(state[name])

    @staticmethod
    @torch.no_grad()
    def apply(model: nn.Module, state: dict[str, Tensor], *prefixes: str) -> None:
        """Overwrite a model's parameters, or those with a prefix, with an average."""
        for name, parameter in model.named_parameters():
            if name.startswith(prefixes or ""):
                parameter.copy_(state[name])
