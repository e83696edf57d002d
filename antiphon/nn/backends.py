"""Layer backends, chosen at load: PyTorch operations on any device, or GPU kernels."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor

from antiphon.nn import kernels
from antiphon.nn.cpu.exact_rows import by_row, linear_by_row
from antiphon.nn.sampler import (
    SamplerHook,
    SamplingRows,
    gaussian_noise,
    gaussian_of,
    gumbel_noise,
    sample,
)


class TorchBackend:
    """PyTorch operations: the reference of every kernel."""

    has_kernels = False

    def linear(self, states: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return linear_by_row(states, weight, bias)

    def rms_norm(self, states: Tensor, weight: Tensor, epsilon: float) -> Tensor:
        return weight * F.rms_norm(states.float(), states.shape[-1:], eps=epsilon).to(states.dtype)

    def add_rms_norm(
        self, states: Tensor, branch: Tensor, weight: Tensor, epsilon: float
    ) -> tuple[Tensor, Tensor]:
        """Return ``states + branch``, and the normed sum."""
        states = states + branch
        return states, self.rms_norm(states, weight, epsilon)

    def silu_product(self, gate_up: Tensor) -> Tensor:
        gate, up = gate_up.chunk(2, dim=-1)
        return by_row(F.silu, gate) * up

    def sum_embeddings(self, codes: Tensor, table: Tensor) -> Tensor:
        """Sum the embeddings of each frame's codes, ``[..., num_groups]``."""
        return F.embedding(codes, table).sum(-2)

    def gumbel_noise(
        self, seeds: Tensor, frames: Tensor, codebooks: Tensor, vocab_size: int
    ) -> Tensor:
        """Compute row by row: the memory of small tensors is used again, that of large ones not."""
        rows = zip(torch.split(seeds, 1), torch.split(frames, 1), strict=True)
        return torch.cat([gumbel_noise(*row, codebooks, vocab_size) for row in rows])

    def gaussian_noise(self, seeds: Tensor, frames: Tensor, indices: Tensor, size: int) -> Tensor:
        return gaussian_noise(seeds, frames, indices, size)

    def sample(
        self, logits: Tensor, rows: SamplingRows, noise: Tensor, hooks: Sequence[SamplerHook] = ()
    ) -> tuple[Tensor, Tensor]:
        drawn = self._draw(logits, rows, noise)
        for hook in hooks:
            drawn = hook(logits, rows, drawn)
        return drawn

    def _draw(self, logits: Tensor, rows: SamplingRows, noise: Tensor) -> tuple[Tensor, Tensor]:
        return sample(logits, rows, noise)


class TritonBackend(TorchBackend):
    """Triton's kernels, one launch each."""

    has_kernels = True

    def linear(self, states: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        from antiphon.nn.kernels.fused_linear import FusedLinear

        product = FusedLinear(is_batch_invariant=True).plain(states.flatten(0, -2), weight, bias)
        return product.view(*states.shape[:-1], len(weight))

    def rms_norm(self, states: Tensor, weight: Tensor, epsilon: float) -> Tensor:
        from antiphon.nn.kernels import pointwise

        return pointwise.rms_norm(states, weight, epsilon)

    def add_rms_norm(
        self, states: Tensor, branch: Tensor, weight: Tensor, epsilon: float
    ) -> tuple[Tensor, Tensor]:
        from antiphon.nn.kernels import pointwise

        return pointwise.add_rms_norm(states, branch, weight, epsilon)

    def silu_product(self, gate_up: Tensor) -> Tensor:
        from antiphon.nn.kernels import pointwise

        return pointwise.silu_product(gate_up)

    def sum_embeddings(self, codes: Tensor, table: Tensor) -> Tensor:
        """Add group by group in f32 for any shape, as the kernel of a decode step does."""
        first, *others = F.embedding(codes, table).float().unbind(-2)
        for other in others:
            first = first + other
        return first.to(table.dtype)

    def gumbel_noise(
        self, seeds: Tensor, frames: Tensor, codebooks: Tensor, vocab_size: int
    ) -> Tensor:
        from antiphon.nn.kernels import sampling

        return sampling.gumbel(seeds, frames, codebooks, vocab_size)

    def gaussian_noise(self, seeds: Tensor, frames: Tensor, indices: Tensor, size: int) -> Tensor:
        from antiphon.nn.kernels import sampling

        return gaussian_of(sampling.uniform(seeds, frames, indices, size + size % 2))[..., :size]

    def _draw(self, logits: Tensor, rows: SamplingRows, noise: Tensor) -> tuple[Tensor, Tensor]:
        from antiphon.nn.kernels import sampling

        return sampling.draw(logits, (rows.temperature, rows.top_k, rows.top_p), noise)


_TORCH, _TRITON = TorchBackend(), TritonBackend()


def backend_of(weight: Tensor) -> TorchBackend:
    return _TRITON if kernels.run_on(weight) else _TORCH
