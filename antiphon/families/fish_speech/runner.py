"""Loads both models of a checkpoint, and the runner that drives them."""

import logging
from typing import TypeAlias

import torch

from antiphon.contracts.family import LoadContext
from antiphon.engine.model_runner.kv_cache import KVBudget
from antiphon.engine.model_runner.model_runner import ModelRunner
from antiphon.families.fish_speech.config import LICENCE, MAX_POSITIONS, load_config
from antiphon.families.fish_speech.dual_ar import SlowModel, load_fast_model
from antiphon.families.fish_speech.language_model import DualARModel
from antiphon.families.fish_speech.request import FishSpeechRequest
from antiphon.families.fish_speech.weights import model_weights
from antiphon.nn.device import resolve_device, resolve_dtype

FishSpeechRunner: TypeAlias = ModelRunner[FishSpeechRequest]

_log = logging.getLogger(__name__)


def load_runner(
    context: LoadContext,
    *,
    is_batched: bool | None = None,
    uses_graphs: bool = True,
    max_positions: int = MAX_POSITIONS,
) -> FishSpeechRunner:
    """Load a checkpoint's models, and make room for the requests that they serve.

    Args:
        context: where and how.
        is_batched: see `ModelRunner`.
        uses_graphs: likewise.
        max_positions: of a request, prompt and frames together.

    Raises:
        ModelLoadError: the checkpoint cannot be served.
    """
    return ModelRunner(
        load_model(context, max_positions),
        KVBudget(context.max_slots, max_positions, context.cache_bytes, context.memory_utilization),
        is_batched=is_batched,
        is_deterministic=context.is_deterministic,
        uses_graphs=uses_graphs,
        progress=context.progress_of("graphs"),
    )


def load_model(context: LoadContext, max_positions: int = MAX_POSITIONS) -> DualARModel:
    """Load slow and fast model from a checkpoint's directory, and say what its licence allows.

    Raises:
        ModelLoadError: tensors are missing, or of the wrong shape.
    """
    config = load_config(context.path)
    assert context.path is not None, "the family needs a checkpoint"
    _log.warning("%s: Fish Speech weights are under the %s.", context.path, LICENCE)
    device = resolve_device(context.device, context.memory_fraction)
    like = torch.empty(0, dtype=resolve_dtype(context.dtype, device), device=device)
    opened = model_weights(
        context.path, config, like=like, progress=context.progress_of("language model")
    )
    is_invariant = context.is_deterministic
    with torch.inference_mode(), opened as weights:
        return DualARModel(
            SlowModel.of(weights, config, max_positions, is_batch_invariant=is_invariant),
            load_fast_model(weights, config, is_batch_invariant=is_invariant),
            num_slots=context.max_slots,
            max_positions=max_positions,
        )
