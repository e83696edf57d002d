"""Optimizer of the language model: AdamW, with Muon for the matrices of layers.

Rates follow a schedule by time; gradients are clipped; weights are averaged as they move.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from antiphon_training.optimizing import Learner, set_rate

_WARM_UP_SHARE = 0.03
_LAST_SHARE = 0.02
"""Last learning rate, relative to the largest."""
_MAX_NORM = 1.0
_AVERAGE_DECAY = 0.999
_DECAY = 0.05
_MOMENTUM = 0.95
_LIKE_ADAMW = 0.2
"""Root mean square of an update by AdamW at a rate of 1."""
_NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
_NEWTON_SCHULZ_STEPS = 5


class Muon:
    """Moves matrices by the nearest orthogonal matrix to their gradient's momentum.

    Jordan et al., 2024 (https://kellerjordan.github.io/posts/muon); scaled so that rates and decay
    are those of AdamW (Liu et al., 2025, arXiv:2502.16982). Matrices of a shape are one batch.
    """

    def __init__(self, matrices: Sequence[Tensor]) -> None:
        by_shape: dict[torch.Size, list[Tensor]] = {}
        for each in matrices:
            by_shape.setdefault(each.shape, []).append(each)
        self._groups = list(by_shape.values())
        self.momenta = [torch.zeros_like(torch.stack(group)) for group in self._groups]

    @torch.no_grad()
    def step(self, rate: Tensor, norm: Tensor) -> None:
        """Take a step, or none if ``norm``, that of all gradients, is not finite."""
        is_finite = torch.isfinite(norm)
        rate = torch.where(is_finite, rate, 0.0)
        for group, momentum in zip(self._groups, self.momenta, strict=True):
            gradients = torch.stack([weight.grad for weight in group if weight.grad is not None])
            gradients = torch.where(is_finite, gradients, 0.0)
            momentum.lerp_(gradients, 1 - _MOMENTUM)
            updates = orthogonal(gradients.lerp(momentum, _MOMENTUM))
            updates = updates * (rate * _LIKE_ADAMW * max(momentum.shape[1:]) ** 0.5)
            torch._foreach_mul_(group, 1 - rate * _DECAY)
            torch._foreach_sub_(group, list(updates.unbind()))


def orthogonal(matrices: Tensor) -> Tensor:
    """Return about the nearest orthogonal matrices, ``[n, rows, columns]`` (Newton-Schulz)."""
    first, third, fifth = _NEWTON_SCHULZ
    is_high = matrices.shape[1] > matrices.shape[2]
    wide = matrices.mT if is_high else matrices
    wide = (wide / (wide.norm(dim=(1, 2), keepdim=True) + 1e-7)).bfloat16()
    for _ in range(_NEWTON_SCHULZ_STEPS):
        square = wide @ wide.mT
        wide = first * wide + (third * square + fifth * (square @ square)) @ wide
    result: Tensor = (wide.mT if is_high else wide).float()
    return result


@dataclass(frozen=True, slots=True)
class Optimization:
    """Learner of a model, and the moving average of its weights."""

    learner: Learner
    muon: Muon
    averages: list[Tensor]

    @classmethod
    def of(
        cls, model: nn.Module, averaged: nn.Module, reader: nn.Module, rate: float
    ) -> "Optimization":
        """Return the optimization of a model and its reader; ``averaged`` gets the averages."""
        matrices = matrices_of_layers(model)
        embeddings = {
            id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)
        }
        weights = [*model.parameters(), *reader.parameters()]
        in_matrices = {id(each) for each in matrices}
        others = [each for each in weights if id(each) not in in_matrices]
        decayed = [each for each in others if each.ndim > 1 and id(each) not in embeddings]
        kept = {id(each) for each in decayed}
        groups = [
            {"params": decayed, "weight_decay": _DECAY},
            {"params": [each for each in others if id(each) not in kept], "weight_decay": 0.0},
        ]
        device = weights[0].device
        optimizer = torch.optim.AdamW(
            groups,
            torch.tensor(rate, device=device),
            betas=(0.9, 0.98),
            fused=True,
            capturable=device.type == "cuda",
        )
        return cls(Learner(weights, optimizer), Muon(matrices), list(averaged.parameters()))

    def set_rate(self, rate: float) -> None:
        set_rate(self.learner.optimizer, rate)

    def step(self, num_replicas: int) -> Tensor:
        """Take a step with the sum of the replicas' gradients; return the norm of their mean."""
        norm = self.learner.step(num_replicas, _MAX_NORM)
        self.muon.step(self.learner.optimizer.param_groups[0]["lr"], norm)
        return norm

    def follow(self, num_steps: int) -> None:
        """Move the averages."""
        decay = min(_AVERAGE_DECAY, (1 + num_steps) / (10 + num_steps))
        with torch.no_grad():
            weights = self.learner.parameters[: len(self.averages)]
            torch._foreach_lerp_(self.averages, list(weights), 1 - decay)

    def state_dict(self) -> dict[str, Any]:
        return self.learner.optimizer.state_dict() | {"momenta": self.muon.momenta}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        adamw = dict(state)
        for momentum, saved in zip(self.muon.momenta, adamw.pop("momenta"), strict=True):
            momentum.copy_(saved)
        self.learner.optimizer.load_state_dict(adamw)


def matrices_of_layers(model: nn.Module) -> list[Tensor]:
    """Return the matrices of a model's layers: no embeddings and no projections to codes."""
    named = model.named_parameters()
    return [each for name, each in named if ".layers." in name and each.ndim == 2]


def learning_rate(most: float, progress: float) -> float:
    """Return the learning rate after a share of the whole time: a warm-up, then half a cosine."""
    if progress < _WARM_UP_SHARE:
        return most * max(progress, 1e-3) / _WARM_UP_SHARE
    place = min((progress - _WARM_UP_SHARE) / (1 - _WARM_UP_SHARE), 1.0)
    return most * (_LAST_SHARE + (1 - _LAST_SHARE) * 0.5 * (1 + math.cos(math.pi * place)))
