"""Loader of a checkpoint's talker and of the runner that drives it."""

from typing import TypeAlias, Unpack

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
from antiphon.families.kit.loading import RunnerOptions, like_of, runner_of
from antiphon.nn.weights import open_weights

TalkerRunner: TypeAlias = ModelRunner[TalkerRequest]

_USUAL_POSITIONS = 2048  # per conversation with the codes of its answer


def load_talker(context: LoadContext, **how: Unpack[RunnerOptions]) -> TalkerRunner:
    """Load a checkpoint's talker and its runner; see `runner_of`.

    Raises:
        ModelLoadError: the checkpoint cannot be served.
    """
    config = load_omni_config(context.checkpoint)
    sizes = config.talker.transformer
    like = like_of(context)
    max_positions = min(MAX_TOLD_POSITIONS + 2 + MAX_CODES, sizes.max_positions)
    opened = open_weights(
        context.checkpoint,
        talker_layout(config),
        like=like,
        others=NOT_OF_TALKER,
        progress=context.progress_of("talker"),
        is_dummy=context.is_dummy,
    )
    with torch.inference_mode(), opened as weights:
        model = OmniTalker(
            config,
            weights,
            load_voices(context.checkpoint, config),
            num_slots=context.max_slots,
            max_positions=max_positions,
            is_batch_invariant=context.is_deterministic,
        )
    position_size = 2 * sizes.num_layers * sizes.num_kv_heads * sizes.head_dim
    usual = context.max_slots * min(_USUAL_POSITIONS, max_positions)
    cache_bytes = context.cache_bytes or usual * position_size * like.element_size()
    budget = KVBudget(context.max_slots, max_positions, cache_bytes)
    graphs = "graphs of the talker"
    return runner_of(context, model, max_positions, budget=budget, graphs=graphs, **how)
