"""Loads the language model of a checkpoint, and the runner that drives it."""

from typing import TypeAlias

import torch

from antiphon.contracts.family import LoadContext
from antiphon.engine.model_runner.kv_cache import KVBudget
from antiphon.engine.model_runner.model_runner import ModelRunner
from antiphon.families.cosyvoice3 import checkpoint as schema
from antiphon.families.cosyvoice3.bounds import MAX_POSITIONS
from antiphon.families.cosyvoice3.config import load_config
from antiphon.families.cosyvoice3.language_model import SpeechLM
from antiphon.families.cosyvoice3.request import CosyVoice3Request
from antiphon.families.cosyvoice3.stream_memory import slots_that_fit
from antiphon.families.cosyvoice3.weights import read_tensors
from antiphon.nn.device import resolve_device, resolve_dtype

CosyVoice3Runner: TypeAlias = ModelRunner[CosyVoice3Request]


def load_runner(
    context: LoadContext,
    *,
    is_batched: bool | None = None,
    uses_graphs: bool = True,
    max_positions: int = MAX_POSITIONS,
) -> CosyVoice3Runner:
    """Load a checkpoint's language model, and make room for the requests that it serves.

    Args:
        context: where and how.
        is_batched: see `ModelRunner`.
        uses_graphs: likewise.
        max_positions: of a request, prompt and speech together.

    Raises:
        ModelLoadError: the checkpoint cannot be served.
    """
    assert context.path is not None, "the family needs a checkpoint"
    config = load_config(context.path)
    device = resolve_device(context.device, context.memory_fraction)
    like = torch.empty(0, dtype=resolve_dtype(context.dtype, device), device=device)
    num_slots = slots_that_fit(context, config.flow, device)
    with torch.inference_mode():
        weights = read_tensors(
            context.path / schema.LANGUAGE_FILE,
            schema.language_layout(config),
            like=like,
            unused=schema.LANGUAGE_UNUSED,
        )
        model = SpeechLM(
            config,
            weights,
            num_slots=num_slots,
            max_positions=max_positions,
            is_batch_invariant=context.is_deterministic,
        )
        del weights
    return ModelRunner(
        model,
        KVBudget(num_slots, max_positions, context.cache_bytes, context.memory_utilization),
        is_batched=is_batched,
        is_deterministic=context.is_deterministic,
        uses_graphs=uses_graphs,
        progress=context.progress_of("graphs"),
    )
