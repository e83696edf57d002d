"""Parallelism of a denoiser's processes: over the sequence, or over the two guidance passes."""

from collections.abc import Callable
from typing import Any, Self

import torch
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from antiphon.config.diffusion import DiffusionSettings
from antiphon.errors import SettingsError

_CFG, _RING, _ULYSSES = "cfg", "ring", "ulysses"
_RING_DTYPES = (torch.bfloat16, torch.float16)


class RankMesh:
    """The ranks by what they share; made in each of them, after they have found one another."""

    def __init__(self, settings: DiffusionSettings, mesh: DeviceMesh) -> None:
        """Wrap a mesh; see `of`."""
        self._settings = settings
        self._mesh = mesh

    @classmethod
    def of(cls, settings: DiffusionSettings, device: torch.device) -> Self | None:
        """Return the mesh that settings ask for; ``None``: it is one process."""
        if settings.num_processes == 1:
            return None
        shape = (settings.cfg_parallel_size, settings.ring_degree, settings.ulysses_degree)
        mesh = init_device_mesh(device.type, shape, mesh_dim_names=(_CFG, _RING, _ULYSSES))
        return cls(settings, mesh)

    def share_sequence(self, network: Any) -> None:
        """Let the ranks of a pass of a network share its sequence; raises SettingsError."""
        from diffusers import ContextParallelConfig

        ulysses, ring = self._settings.ulysses_degree, self._settings.ring_degree
        if ulysses * ring == 1:
            return
        # Ring attention needs a backend that returns the sums that its parts are joined by.
        if ring > 1 and not (self._mesh.device_type == "cuda" and network.dtype in _RING_DTYPES):
            raise SettingsError(
                "--ring-degree: it needs GPUs and weights in bfloat16 or float16 (--dtype)."
            )
        network.set_attention_backend("native" if ring == 1 else "_native_cudnn")
        network.enable_parallelism(
            config=ContextParallelConfig(
                ulysses_degree=ulysses,
                ring_degree=ring,
                ulysses_anything=ulysses > 1,
                ring_anything=ring > 1,
                mesh=self._mesh,
            )
        )

    def both(
        self, near: Callable[[], Tensor], apart: Callable[[], Tensor]
    ) -> tuple[Tensor, Tensor]:
        """Compute both passes of guidance, each at its ranks if they share these."""
        if self._settings.cfg_parallel_size == 1:
            return near(), apart()
        is_near = self._mesh.get_local_rank(_CFG) == 0
        mine = (near() if is_near else apart()).contiguous()
        made = [torch.empty_like(mine) for _ in range(2)]
        torch.distributed.all_gather(made, mine, group=self._mesh.get_group(_CFG))
        return made[0], made[1]
