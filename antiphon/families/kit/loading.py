"""Loading of autoregressive models: number type, device, and the runner."""

from typing import TypedDict, TypeVar, Unpack

import torch
from torch import Tensor

from antiphon.contracts.family import LoadContext
from antiphon.engine.model_runner.ar_model import ARModel
from antiphon.engine.model_runner.kv_cache import KVBudget
from antiphon.engine.model_runner.model_runner import ModelRunner
from antiphon.nn.cpu.packed_layers import check_quantize
from antiphon.nn.cuda.devices import loadable_memory
from antiphon.nn.device import resolve_device, resolve_dtype
from antiphon.nn.weights import WeightOptions

RequestT = TypeVar("RequestT")


class RunnerOptions(TypedDict, total=False):
    """Arguments of `ModelRunner` that differ between tests and servers."""

    is_batched: bool | None
    copies_common: bool | None
    uses_graphs: bool


def like_of(context: LoadContext, dtype: str | None = None) -> Tensor:
    """Return an empty tensor of a type, by default the context's, on the device of weights."""
    device = resolve_device(context.device, context.memory_fraction, context.cpu_threads)
    return torch.empty(0, dtype=resolve_dtype(dtype or context.dtype, device), device=device)


def weights_for(
    context: LoadContext, part: str | None = None, dtype: str | None = None
) -> WeightOptions:
    """Return the arguments of `antiphon.nn.weights.open_weights` that depend on the context.

    Args:
        part: label of the progress; ``None``: it is not reported.
        dtype: name of the type; ``None``: that of the context.
    """
    like, quantize = like_of(context, dtype), context.quantize
    check_quantize(quantize, like)
    progress = None if part is None else context.progress_of(part)
    return WeightOptions(like=like, progress=progress, is_dummy=context.is_dummy, quantize=quantize)


def fitted(
    context: LoadContext, max_positions: int, sizes: tuple[int, int], reserved_bytes: int = 0
) -> KVBudget:
    """Return a budget with the slots that a GPU's memory holds beside weights to be loaded.

    ``sizes`` are the numbers of the weights, and of a position's keys and values.
    """
    like, utilization = like_of(context), context.memory_utilization
    slots, cache_bytes = context.max_slots, context.cache_bytes
    budget = KVBudget(slots, max_positions, cache_bytes, utilization, reserved_bytes)
    if like.is_cpu or utilization is None or cache_bytes is not None:
        return budget
    weight_bytes, position_bytes = (each * like.itemsize for each in sizes)
    num_free, num_total = loadable_memory(like.device)
    plan = budget.plan(num_free - weight_bytes, num_total)
    return budget.fitted(plan, position_bytes, is_fixed=context.has_fixed_slots)


def runner_of(
    context: LoadContext,
    model: ARModel[RequestT],
    max_positions: int,
    *,
    budget: KVBudget | None = None,
    graphs: str = "graphs",
    **how: Unpack[RunnerOptions],
) -> ModelRunner[RequestT]:
    """Return the runner of a model, sized for the requests that it serves.

    Args:
        max_positions: longest request, prompt and frames together.
        budget: memory for keys and values; ``None``: derived from the context.
    """
    if budget is None:
        slots, cache_bytes = context.max_slots, context.cache_bytes
        budget = KVBudget(slots, max_positions, cache_bytes, context.memory_utilization)
    progress = context.progress_of(graphs)
    return ModelRunner(
        model, budget, is_deterministic=context.is_deterministic, progress=progress, **how
    )
