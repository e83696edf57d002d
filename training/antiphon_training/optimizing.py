"""Steps of an optimizer that a broken gradient cannot harm, and averages of weights."""

from typing import Any

import torch
from torch import Tensor, nn

_MAX_NORM = 10.0
_AVERAGE_DECAY = 0.999


def adamw(model: nn.Module, rate: float) -> torch.optim.AdamW:
    """Return an optimizer that decays weights only, not biases and factors."""
    parameters = list(model.parameters())
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


def step_safely(
    optimizer: torch.optim.Optimizer,
    model: nn.Module,
    loss: Tensor,
    max_norm: float = _MAX_NORM,
) -> Tensor:
    """Take a step with clipped gradients, or none if a gradient is not finite.

    The host waits for nothing: fused optimizers read scale and flag on the device, as with a
    gradient scaler. Returns the gradient's norm before clipping.
    """
    optimizer.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    gradients = [each.grad for each in model.parameters() if each.grad is not None]
    norm = torch.nn.utils.get_total_norm(gradients)
    optimizer.grad_scale = (norm / max_norm).clamp(min=1.0).nan_to_num(1.0)  # type: ignore[attr-defined]
    optimizer.found_inf = (~torch.isfinite(norm)).float()  # type: ignore[attr-defined]
    optimizer.step()
    return norm


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
    def apply(model: nn.Module, state: dict[str, Tensor]) -> None:
        """Overwrite a model's parameters with an average."""
        for name, parameter in model.named_parameters():
            parameter.copy_(state[name])
