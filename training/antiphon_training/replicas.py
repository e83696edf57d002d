"""Replicas of a training, one process and GPU each, that torchrun starts."""

import os
from dataclasses import dataclass

import torch
from torch import Tensor, distributed


@dataclass(frozen=True, slots=True)
class Replicas:
    """The place of this process among those that train one model together.

    Attributes:
        rank: number of this process, from 0.
        count: number of processes.
    """

    rank: int = 0
    count: int = 1

    @classmethod
    def joined(cls, device: torch.device) -> "Replicas":
        """Join the processes that torchrun started; alone without it."""
        if int(os.environ.get("WORLD_SIZE", "1")) == 1:
            return cls()
        distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
        return cls(distributed.get_rank(), distributed.get_world_size())

    def parted(self) -> "Replicas":
        """Leave the others, all of which do the same at the same step; return what each is now."""
        if self.count > 1:
            distributed.destroy_process_group()
        return Replicas()

    def sum(self, *tensors: Tensor) -> None:
        """Replace tensors by their sum over all replicas."""
        if self.count > 1:
            for each in tensors:
                distributed.all_reduce(each)

    def copy_first(self, *tensors: Tensor) -> None:
        """Replace tensors by those of the first replica."""
        if self.count > 1:
            for each in tensors:
                distributed.broadcast(each, 0)

    def any(self, flag: bool, device: torch.device) -> bool:
        """Return whether a flag is set in any replica; waits for all."""
        if self.count == 1:
            return flag
        number = torch.tensor(float(flag), device=device)
        distributed.all_reduce(number)
        return bool(number > 0)


def device_of(name: str | None) -> torch.device:
    """Return a device by its name; by default this process's GPU, or the CPU if there is none."""
    if name is None:
        is_gpu = torch.cuda.is_available()
        name = f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if is_gpu else "cpu"
    device = torch.device(name)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    return device
