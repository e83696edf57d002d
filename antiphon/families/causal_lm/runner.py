"""Loader of a checkpoint's language model and of the runner that drives it."""

from typing import TypeAlias, Unpack

import torch

from antiphon.contracts.chat import CHAT_VOICE
from antiphon.contracts.family import LoadContext
from antiphon.engine.model_runner.kv_cache import KVBudget
from antiphon.engine.model_runner.model_runner import ModelRunner
from antiphon.families.causal_lm.checkpoint import layout_of, others, tied
from antiphon.families.causal_lm.config import CausalLMConfig, load_config
from antiphon.families.causal_lm.language_model import CausalLM
from antiphon.families.causal_lm.omni.config import has_voice
from antiphon.families.causal_lm.request import CausalLMRequest
from antiphon.families.causal_lm.tokenizer import load_tokenizer
from antiphon.families.kit.loading import RunnerOptions, like_of, runner_of
from antiphon.nn.weights import check_tied, open_weights

CausalLMRunner: TypeAlias = ModelRunner[CausalLMRequest]

_USUAL_POSITIONS = 2048  # per conversation
_MOST_GPU_BYTES, _MOST_BYTES = 8 * 2**30, 2**30  # without a setting


def load_runner(
    context: LoadContext, *, max_positions: int | None = None, **how: Unpack[RunnerOptions]
) -> CausalLMRunner:
    """Load a checkpoint's language model and its runner; see `runner_of`.

    ``max_positions`` defaults to the longest request that fits.

    Raises:
        ModelLoadError: the checkpoint cannot be served.
    """
    config = load_config(context.checkpoint)
    eos_ids = load_tokenizer(context.checkpoint).eos_ids(config.eos_ids)
    like = like_of(context)
    longest = config.max_positions(context)
    max_positions = longest if max_positions is None else min(max_positions, longest)
    if not context.is_dummy:
        check_tied(context.checkpoint, tied(config))
    opened = open_weights(
        context.checkpoint,
        layout_of(config),
        like=like,
        others=others(config),
        progress=context.progress_of("language model"),
        is_dummy=context.is_dummy,
    )
    with torch.inference_mode(), opened as weights:
        model = CausalLM(
            config,
            weights,
            eos_ids=eos_ids,
            num_slots=context.max_slots,
            max_positions=max_positions,
            is_batch_invariant=context.is_deterministic,
            tells_states=has_voice(context.checkpoint)
            and CHAT_VOICE in (context.tasks or (CHAT_VOICE,)),
        )
    budget = _budget(context, config, max_positions, like)
    return runner_of(context, model, max_positions, budget=budget, **how)


def _budget(
    context: LoadContext, config: CausalLMConfig, max_positions: int, like: torch.Tensor
) -> KVBudget:
    """Return the cache budget: the configured size, or that of typical conversations."""
    cache_bytes, utilization = context.cache_bytes, context.memory_utilization
    if cache_bytes is None and not (like.is_cuda and utilization is not None):
        usual = context.max_slots * min(_USUAL_POSITIONS, max_positions)
        most = _MOST_GPU_BYTES if like.is_cuda else _MOST_BYTES
        cache_bytes = min(usual * config.position_size * like.element_size(), most)
    return KVBudget(context.max_slots, max_positions, cache_bytes, utilization)
