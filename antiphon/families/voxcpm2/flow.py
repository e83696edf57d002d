"""Flow matching of a patch: Euler steps from noise, with classifier-free guidance.

As in the official program, steps are denser at the beginning, the first 4% of them are skipped,
and guidance is scaled by the similarity of both velocities (CFG-Zero*, arXiv 2503.18886).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor

from antiphon.families.voxcpm2.config import MAX_STEPS, MIN_STEPS, VoxCPM2Config
from antiphon.families.voxcpm2.networks import LocalTransformer, NetworkBuilder
from antiphon.nn.layers import Linear

_IDLE_SHARE = 0.04
_NUM_CONDITIONS = 2
"""Positions that condition on outputs of the language models."""
_MAX_PERIOD, _TIME_SCALE = 10000, 1000


@dataclass(frozen=True, slots=True)
class Schedules:
    """Solver schedules for every number of steps, one per row.

    Attributes:
        times: time embeddings, ``[MAX_STEPS + 1, most passes, hidden_size]``.
        lengths: step lengths, f32 ``[MAX_STEPS + 1, most passes]``; 0 after the end of a schedule.
    """

    times: Tensor
    lengths: Tensor

    @classmethod
    def of(cls, builder: NetworkBuilder, config: VoxCPM2Config) -> "Schedules":
        name, width = "feat_decoder.estimator", config.flow.hidden_size
        time = tuple(builder.linear(f"{name}.time_mlp.linear_{layer}") for layer in (1, 2))
        delta = tuple(builder.linear(f"{name}.delta_time_mlp.linear_{layer}") for layer in (1, 2))
        like = time[0].weight
        num_passes = num_passes_of(MAX_STEPS)
        times = like.new_zeros(MAX_STEPS + 1, num_passes, width)
        lengths = torch.zeros(MAX_STEPS + 1, num_passes, device=like.device)
        for num_steps in range(MIN_STEPS, MAX_STEPS + 1):
            steps = [torch.stack(each) for each in zip(*_steps(num_steps, like), strict=True)]
            at, length = steps
            zeros = torch.zeros_like(length)  # velocities depend on no length of steps
            embedded = _mlp(time, _sinusoids(at, width)) + _mlp(delta, _sinusoids(zeros, width))
            times[num_steps, : len(at)] = embedded
            lengths[num_steps, : len(at)] = length.float()
        return cls(times, lengths)


def num_passes_of(num_steps: int) -> int:
    """Return the number of network passes in a schedule, which skips its first steps."""
    return num_steps - max(1, int((num_steps + 1) * _IDLE_SHARE))


def _steps(num_steps: int, like: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield time and length of each step that is not skipped, in the type of ``like``."""
    span = torch.linspace(1, 0, num_steps + 1, device=like.device, dtype=like.dtype)
    span = span + (torch.cos(torch.pi / 2 * span) - 1 + span)
    num_idle = num_steps - num_passes_of(num_steps)
    time, length = span[0], span[0] - span[1]
    for step in range(1, num_steps + 1):
        if step > num_idle:
            yield time, length
        time = time - length
        if step < num_steps:
            length = time - span[step + 1]


def _sinusoids(times: Tensor, width: int) -> Tensor:
    """Return sinusoidal embeddings of times, ``[n]``, in their own type, as in training."""
    half = width // 2
    decay = math.log(_MAX_PERIOD) / (half - 1)
    rates = torch.exp(torch.arange(half, dtype=times.dtype, device=times.device) * -decay)
    angles = _TIME_SCALE * times[:, None] * rates
    return torch.cat((angles.sin(), angles.cos()), dim=-1)


def _mlp(layers: tuple[Linear, ...], states: Tensor) -> Tensor:
    first, second = layers
    return second(F.silu(first(states)))


@dataclass(frozen=True, slots=True)
class FlowInputs:
    """Inputs of a batch of patches, one per row.

    Attributes:
        noise: standard normal noise, f32 ``[rows, patch_size, feature_size]``.
        conditions: outputs of the language models, ``[rows, 2, hidden_size]``.
        previous: previous patches, f32 of the shape of ``noise``; zeros before the first.
        guidance: guidance scale, f32 ``[rows]``.
        num_steps: number of solver steps, int64 ``[rows]``.
        most_steps: upper bound of ``num_steps``, which determines the number of passes.
    """

    noise: Tensor
    conditions: Tensor
    previous: Tensor
    guidance: Tensor
    num_steps: Tensor
    most_steps: int


@dataclass(frozen=True, slots=True)
class Flow:
    """Generates patches from noise.

    Attributes:
        previous: projection of the previous patch.
        num_first: positions before those of the current patch.
    """

    schedules: Schedules
    input: Linear
    previous: Linear
    output: Linear
    transformer: LocalTransformer
    num_first: int

    @classmethod
    def of(cls, builder: NetworkBuilder, config: VoxCPM2Config) -> "Flow":
        name, scale = "feat_decoder.estimator", config.branch_scales[3]
        num_first = _NUM_CONDITIONS + 1 + config.patch_size
        num_positions = num_first + config.patch_size
        layers = builder.transformer(f"{name}.decoder", config.flow, scale, num_positions)
        return cls(
            schedules=Schedules.of(builder, config),
            input=builder.linear(f"{name}.in_proj"),
            previous=builder.linear(f"{name}.cond_proj"),
            output=builder.linear(f"{name}.out_proj"),
            transformer=LocalTransformer(layers, num_positions),
            num_first=num_first,
        )

    def make(self, inputs: FlowInputs) -> Tensor:
        """Return patches, f32 ``[rows, patch_size, feature_size]``."""
        if self.input.backend.has_kernels:
            return self._make_fused(inputs)
        conditions, num_steps = inputs.conditions, inputs.num_steps
        num_rows, dtype = len(conditions), conditions.dtype
        given = torch.cat((conditions, torch.zeros_like(conditions)))
        before = self.previous(inputs.previous.to(dtype)).repeat(2, 1, 1)
        times, lengths = self.schedules.times[num_steps], self.schedules.lengths[num_steps]
        patch, factor = inputs.noise, inputs.guidance[:, None, None]
        latest = slice(self.num_first, None)
        for number in range(num_passes_of(inputs.most_steps)):
            time = times[:, number, None].repeat(2, 1, 1)
            current = self.input(patch.to(dtype)).repeat(2, 1, 1)
            states = torch.cat((given, time, before, current), dim=1)
            both = self.output(self.transformer(states, latest)).float()
            asked, unasked = both[:num_rows], both[num_rows:]
            unasked = unasked * _alikeness(asked, unasked)
            velocity = unasked + factor * (asked - unasked)
            # A row whose schedule has ended does not move, because its lengths are 0.
            moved = patch - lengths[:, number, None, None] * velocity
            patch = torch.where(lengths[:, number, None, None] != 0, moved, patch)
        return patch

    def _make_fused(self, inputs: FlowInputs) -> Tensor:
        """Generate patches with a kernel between two passes; see `make`."""
        from antiphon.nn.kernels.flow_step import FlowRows, FlowTables, embed_patch, take_step

        assert self.input.bias is not None
        conditions = inputs.conditions
        num_rows, width = len(conditions), conditions.shape[2]
        states = conditions.new_empty(2 * num_rows, self.transformer.num_positions, width)
        states[:num_rows, :_NUM_CONDITIONS] = conditions
        states[num_rows:, :_NUM_CONDITIONS] = 0
        before = states.view(2, num_rows, -1, width)[:, :, _NUM_CONDITIONS + 1 : self.num_first]
        before.copy_(self.previous(inputs.previous.to(conditions.dtype)))
        tables = FlowTables(
            self.schedules.times, self.schedules.lengths, self.input.weight, self.input.bias
        )
        rows = FlowRows(states, _NUM_CONDITIONS, inputs.num_steps, inputs.guidance)
        patch, latest = inputs.noise.contiguous(), slice(self.num_first, None)
        embed_patch(patch, rows, tables)
        for number in range(num_passes_of(inputs.most_steps)):
            velocities = self.output(self.transformer(states, latest))
            patch = take_step(patch, velocities, rows, tables, number)
        return patch


def _alikeness(asked: Tensor, unasked: Tensor) -> Tensor:
    """Return the projection coefficient between two velocities, ``[rows, 1, 1]``."""
    product = (asked * unasked).sum((1, 2), keepdim=True)
    return product / (unasked.square().sum((1, 2), keepdim=True) + 1e-8)
