"""AdamW with a schedule by time, clipped gradients and a moving average of the weights."""

import math
from collections.abc import Mapping
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


@dataclass(frozen=True, slots=True)
class Optimization:
    """Learner of a model, and the moving average of its weights."""

    learner: Learner
    averages: list[Tensor]

    @classmethod
    def of(cls, model: nn.Module, averaged: nn.Module, rate: float) -> "Optimization":
        """Return the optimization of a model; ``averaged`` gets the averages."""
        embeddings = {
            id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)
        }
        weights = list(model.parameters())
        decayed = [each for each in weights if each.ndim > 1 and id(each) not in embeddings]
        kept = {id(each) for each in decayed}
        groups = [
            {"params": decayed, "weight_decay": _DECAY},
            {"params": [each for each in weights if id(each) not in kept], "weight_decay": 0.0},
        ]
        device = weights[0].device
        optimizer = torch.optim.AdamW(
            groups,
            torch.tensor(rate, device=device),
            betas=(0.9, 0.98),
            fused=True,
            capturable=device.type == "cuda",
        )
        return cls(Learner(weights, optimizer), list(averaged.parameters()))

    def set_rate(self, rate: float) -> None:
        set_rate(self.learner.optimizer, rate)

    def step(self, num_replicas: int) -> Tensor:
        """Take a step with the sum of the replicas' gradients; return the norm of their mean."""
        return self.learner.step(num_replicas, _MAX_NORM)

    def follow(self, num_steps: int) -> None:
        """Move the averages."""
        decay = min(_AVERAGE_DECAY, (1 + num_steps) / (10 + num_steps))
        with torch.no_grad():
            torch._foreach_lerp_(self.averages, list(self.learner.parameters), 1 - decay)

    def state_dict(self) -> dict[str, Any]:
        return self.learner.optimizer.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.learner.optimizer.load_state_dict(dict(state))


def learning_rate(most: float, progress: float) -> float:
    """Return the learning rate after a share of the whole time: a warm-up, then half a cosine."""
    if progress < _WARM_UP_SHARE:
        return most * max(progress, 1e-3) / _WARM_UP_SHARE
    place = min((progress - _WARM_UP_SHARE) / (1 - _WARM_UP_SHARE), 1.0)
    return most * (_LAST_SHARE + (1 - _LAST_SHARE) * 0.5 * (1 + math.cos(math.pi * place)))
