"""Loads the language models of a checkpoint, and the runner that drives them."""

from typing import TypeAlias

import torch

from antiphon.contracts.family import LoadContext
from antiphon.engine.model_runner.kv_cache import KVBudget
from antiphon.engine.model_runner.model_runner import ModelRunner
from antiphon.families.voxcpm2.config import load_config
from antiphon.families.voxcpm2.language_model import VoxCPM2Model
from antiphon.families.voxcpm2.networks import NetworkBuilder
from antiphon.families.voxcpm2.request import VoxCPM2Request
from antiphon.families.voxcpm2.weights import model_weights
from antiphon.nn.device import resolve_device, resolve_dtype

VoxCPM2Runner: TypeAlias = ModelRunner[VoxCPM2Request]


def load_runner(
    context: LoadContext,
    *,
    is_batched: bool | None = None,
    uses_graphs: bool = True,
    max_positions: int | None = None,
) -> VoxCPM2Runner:
    """Load a checkpoint's language models, and make room for the requests that they serve.

    Args:
        context: where and how.
        is_batched: see `ModelRunner`.
        uses_graphs: likewise.
        max_positions: of a request, prompt and frames together; by default what it was made for.

    Raises:
        ModelLoadError: the checkpoint cannot be served.
    """
    assert context.path is not None, "the family needs a checkpoint"
    config = load_config(context.path)
    device = resolve_device(context.device, context.memory_fraction)
    like = torch.empty(0, dtype=resolve_dtype(context.dtype, device), device=device)
    max_positions = max_positions or config.max_positions
    opened = model_weights(
        context.path, config, like=like, progress=context.progress_of("language model")
    )
    with torch.inference_mode(), opened as weights:
        model = VoxCPM2Model(
            NetworkBuilder(weights, context.is_deterministic),
            config,
            num_slots=context.max_slots,
            max_positions=max_positions,
        )
    budget = KVBudget(
        context.max_slots, max_positions, context.cache_bytes, context.memory_utilization
    )
    return ModelRunner(
        model,
        budget,
        is_batched=is_batched,
        is_deterministic=context.is_deterministic,
        uses_graphs=uses_graphs,
        progress=context.progress_of("graphs"),
    )
