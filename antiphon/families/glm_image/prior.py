"""Loader of a checkpoint's prior, and of the runner that drives it."""

from typing import TypeAlias, Unpack

import torch

from antiphon.contracts.family import LoadContext
from antiphon.engine.model_runner.kv_cache import KVBudget
from antiphon.engine.model_runner.model_runner import ModelRunner
from antiphon.families.glm_image.config import PRIOR_DIRECTORY, load_config
from antiphon.families.glm_image.prior_model import PriorModel
from antiphon.families.glm_image.prior_request import PriorRequest
from antiphon.families.glm_image.prior_schema import OTHERS, prior_layout
from antiphon.families.glm_image.prompt import MAX_POSITIONS
from antiphon.families.kit.loading import RunnerOptions, like_of, runner_of
from antiphon.nn.weights import open_weights

PriorRunner: TypeAlias = ModelRunner[PriorRequest]

_USUAL_POSITIONS = 1536  # of an image of 1024 x 1024 pixels, with its preview and a long prompt


def load_prior(context: LoadContext, **how: Unpack[RunnerOptions]) -> PriorRunner:
    """Load a checkpoint's prior and its runner; see `runner_of`.

    Raises:
        ModelLoadError: the checkpoint cannot be served.
    """
    config = load_config(context.checkpoint)
    like = like_of(context)
    max_positions = min(MAX_POSITIONS, config.transformer.max_positions)
    opened = open_weights(
        context.checkpoint / PRIOR_DIRECTORY,
        prior_layout(config),
        like=like,
        others=OTHERS,
        progress=context.progress_of("prior"),
    )
    with torch.inference_mode(), opened as weights:
        model = PriorModel(
            config,
            weights,
            num_slots=context.max_slots,
            max_positions=max_positions,
            is_batch_invariant=context.is_deterministic,
        )
    cache_bytes = context.cache_bytes
    if cache_bytes is None:
        position_bytes = model.kv_shapes[0].position_size * like.element_size()
        cache_bytes = context.max_slots * min(_USUAL_POSITIONS, max_positions) * position_bytes
    budget = KVBudget(context.max_slots, max_positions, cache_bytes)
    return runner_of(context, model, max_positions, budget=budget, **how)
