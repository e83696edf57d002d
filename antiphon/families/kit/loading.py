"""Loading of autoregressive models: number type, device, and the runner."""

from dataclasses import replace
from typing import TypedDict, TypeVar, Unpack

import torch
from torch import Tensor

from antiphon.contracts.family import LoadContext
from antiphon.engine.model_runner.ar_model import ARModel
from antiphon.engine.model_runner.kv_cache import KVBudget
from antiphon.engine.model_runner.model_runner import ModelRunner
from antiphon.nn.cpu.packed_layers import check_quantize
from antiphon.nn.cuda.devices import free_memory
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
    context: LoadContext, max_positions: int, num_weights: int, position_size: int
) -> LoadContext:
    """Return the context with the slots that a GPU's memory holds beside weights to be loaded."""
    like, utilization = like_of(context), context.memory_utilization
    if like.is_cpu or utilization is None or context.cache_bytes is not None:
        return context
    num_free, num_total = free_memory(like.device)
    num_free -= num_weights * like.itemsize
    budget = KVBudget(context.max_slots, max_positions, utilization=utilization)
    num_slots = budget.fitting_slots(position_size * like.itemsize, num_free, num_total)
    return replace(context, max_slots=num_slots)


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
