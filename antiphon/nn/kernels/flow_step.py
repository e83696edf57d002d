"""Guided Euler step and the embedding of its end, for a velocity estimator.

Between two passes of a network over a few positions there are a dozen small operations, each of
which would be a launch. A program computes some of the embedding's outputs for a row, and
recomputes the step for them, which takes less time than another kernel.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from antiphon.nn.kernels.paged_common import MIN_DOT
from antiphon.nn.kernels.pdl import await_others, overlaps

_OUTPUTS = 128  # per program


@dataclass(frozen=True, slots=True)
class FlowTables:
    """Tables of steps that all rows share.

    Attributes:
        times: time embeddings, ``[num_schedules, num_passes, width]``.
        lengths: step lengths, f32 ``[num_schedules, num_passes]``; 0 after the end of a schedule.
        weight: weight of the patch embedding, ``[width, num_features]``.
        bias: bias of the patch embedding, ``[width]``.
    """

    times: Tensor
    lengths: Tensor
    weight: Tensor
    bias: Tensor


@dataclass(frozen=True, slots=True)
class FlowRows:
    """Rows of a flow, and the estimator's input for them.

    Attributes:
        states: ``[2 * num_rows, num_positions, width]``: conditional rows, then unconditional ones.
            The current patch is embedded at the last positions.
        schedules: schedule of each row, int64 ``[num_rows]``.
        guidance: guidance scale, f32 ``[num_rows]``.
    """

    states: Tensor
    time_position: int
    schedules: Tensor
    guidance: Tensor


def embed_patch(patch: Tensor, rows: FlowRows, tables: FlowTables) -> None:
    """Write time and patch of the first pass into the states.

    Args:
        patch: f32 ``[num_rows, patch_size, num_features]``.
    """
    _run(patch, None, patch, rows, tables, 0)


def take_step(
    patch: Tensor, velocities: Tensor, rows: FlowRows, tables: FlowTables, number: int
) -> Tensor:
    """Return the patch after pass ``number``; write the input of the next pass, if any.

    The unconditional velocity is scaled by the projection of the conditional one on it (CFG-Zero*).

    Args:
        patch: f32 ``[num_rows, patch_size, num_features]``.
        velocities: conditional, then unconditional velocities, ``[2 * num_rows, patch_size,
            num_features]``.
    """
    result = torch.empty_like(patch)
    _run(patch, velocities.contiguous(), result, rows, tables, number)
    return result


def _run(
    patch: Tensor,
    velocities: Tensor | None,
    result: Tensor,
    rows: FlowRows,
    tables: FlowTables,
    number: int,
) -> None:
    num_rows, patch_size, num_features = patch.shape
    _, num_positions, width = rows.states.shape
    num_passes = tables.lengths.shape[1]
    assert patch.is_contiguous()
    assert rows.states.is_contiguous()
    is_early = overlaps(patch)
    _flow_step[(num_rows, triton.cdiv(width, _OUTPUTS))](
        patch, velocities, result, rows.states, rows.schedules, rows.guidance,
        tables.times, tables.lengths, tables.weight, tables.bias, num_rows, number, num_passes,
        HAS_STEP=velocities is not None, PATCH_SIZE=patch_size, FEATURES=num_features,
        NUM_POSITIONS=num_positions, TIME_POSITION=rows.time_position, WIDTH=width,
        ROWS=max(MIN_DOT, triton.next_power_of_2(patch_size)),
        INPUTS=max(MIN_DOT, triton.next_power_of_2(num_features)), OUTPUTS=_OUTPUTS,
        PDL=is_early, launch_pdl=is_early, num_warps=4,
    )  # fmt: skip


@triton.jit(do_not_specialize=["num_rows", "number", "num_passes"])
def _flow_step(
    patch, velocities, result, states, schedules, guidance, times, lengths, weight, bias,
    num_rows, number, num_passes,
    HAS_STEP: tl.constexpr, PATCH_SIZE: tl.constexpr, FEATURES: tl.constexpr,
    NUM_POSITIONS: tl.constexpr, TIME_POSITION: tl.constexpr, WIDTH: tl.constexpr,
    ROWS: tl.constexpr, INPUTS: tl.constexpr, OUTPUTS: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    outputs = tl.program_id(1) * OUTPUTS + tl.arange(0, OUTPUTS)
    is_output = outputs < WIDTH
    latent, feature = tl.arange(0, ROWS), tl.arange(0, INPUTS)
    inside = (latent < PATCH_SIZE)[:, None] & (feature < FEATURES)[None, :]
    places = latent[:, None] * FEATURES + feature[None, :]
    factors = weight + outputs[None, :] * FEATURES + feature[:, None]
    factor = tl.load(factors, mask=is_output[None, :] & (feature < FEATURES)[:, None], other=0.0)
    addend = tl.load(bias + outputs, mask=is_output, other=0.0).to(tl.float32)
    await_others(PDL)
    schedule = tl.load(schedules + row)
    value = tl.load(patch + row * PATCH_SIZE * FEATURES + places, mask=inside, other=0.0)
    if HAS_STEP:
        asked_places = velocities + row * PATCH_SIZE * FEATURES + places
        unasked_places = asked_places + num_rows.to(tl.int64) * PATCH_SIZE * FEATURES
        asked = tl.load(asked_places, mask=inside, other=0.0).to(tl.float32)
        unasked = tl.load(unasked_places, mask=inside, other=0.0).to(tl.float32)
        alike = tl.sum(asked * unasked) / (tl.sum(unasked * unasked) + 1e-8)
        unasked = unasked * alike
        velocity = unasked + tl.load(guidance + row) * (asked - unasked)
        length = tl.load(lengths + schedule * num_passes + number)
        # A row whose schedule has ended keeps its value.
        value = tl.where(length != 0.0, value - length * velocity, value)
        if tl.program_id(1) == 0:
            tl.store(result + row * PATCH_SIZE * FEATURES + places, value, mask=inside)
        number += 1
    if number < num_passes:
        made = tl.dot(value.to(weight.dtype.element_ty), factor, input_precision="ieee")
        made = made + addend[None, :]
        time = tl.load(times + (schedule * num_passes + number) * WIDTH + outputs, mask=is_output)
        target = states + row * NUM_POSITIONS * WIDTH + outputs
        current = NUM_POSITIONS - PATCH_SIZE + latent
        spots = target[None, :] + current[:, None] * WIDTH
        is_spot = is_output[None, :] & (latent < PATCH_SIZE)[:, None]
        other = num_rows.to(tl.int64) * NUM_POSITIONS * WIDTH
        tl.store(target + TIME_POSITION * WIDTH, time, mask=is_output)
        tl.store(target + TIME_POSITION * WIDTH + other, time, mask=is_output)
        tl.store(spots, made, mask=is_spot)
        tl.store(spots + other, made, mask=is_spot)
