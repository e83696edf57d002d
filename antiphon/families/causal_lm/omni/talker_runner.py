"""Loads the talker of a checkpoint, and the runner that drives it."""

from typing import TypeAlias

import torch

from antiphon.contracts.family import LoadContext
from antiphon.engine.model_runner.kv_cache import KVBudget
from antiphon.engine.model_runner.model_runner import ModelRunner
from antiphon.families.causal_lm.omni.checkpoint import NOT_OF_TALKER, talker_layout
from antiphon.families.causal_lm.omni.config import load_omni_config
from antiphon.families.causal_lm.omni.talker import OmniTalker
from antiphon.families.causal_lm.omni.talker_request import MAX_CODES, TalkerRequest
from antiphon.families.causal_lm.omni.voices import load_voices
from antiphon.families.causal_lm.request import MAX_TOLD_POSITIONS
from antiphon.nn.device import resolve_device, resolve_dtype
from antiphon.nn.weights import open_weights

TalkerRunner: TypeAlias = ModelRunner[TalkerRequest]

_USUAL_POSITIONS = 2048  # of a conversation and its answer's codes


def load_talker(
    context: LoadContext, *, is_batched: bool | None = None, uses_graphs: bool = True
) -> TalkerRunner:
    """Load a checkpoint's talker, and make room for the requests that it serves.

    Args:
        context: where and how.
        is_batched: see `ModelRunner`.
        uses_graphs: likewise.

    Raises:
        ModelLoadError: the checkpoint cannot be served.
    """
    assert context.path is not None, "the family needs a checkpoint"
    config = load_omni_config(context.path)
    sizes = config.talker.transformer
    device = resolve_device(context.device, context.memory_fraction)
    like = torch.empty(0, dtype=resolve_dtype(context.dtype, device), device=device)
    max_positions = min(MAX_TOLD_POSITIONS + 2 + MAX_CODES, sizes.max_positions)
    opened = open_weights(
        context.path,
        talker_layout(config),
        like=like,
        others=NOT_OF_TALKER,
        progress=context.progress_of("talker"),
    )
    with torch.inference_mode(), opened as weights:
        model = OmniTalker(
            config,
            weights,
            load_voices(context.path, config),
            num_slots=context.max_slots,
            max_positions=max_positions,
            is_batch_invariant=context.is_deterministic,
        )
    position_size = 2 * sizes.num_layers * sizes.num_kv_heads * sizes.head_dim
    usual = context.max_slots * min(_USUAL_POSITIONS, max_positions)
    return ModelRunner(
        model,
        KVBudget(
            context.max_slots,
            max_positions,
            context.cache_bytes or usual * position_size * like.element_size(),
            None,
        ),
        is_batched=is_batched,
        is_deterministic=context.is_deterministic,
        uses_graphs=uses_graphs,
        progress=context.progress_of("graphs of the talker"),
    )
