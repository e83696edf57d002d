"""Loader of a checkpoint's language models and of the runner that drives them."""

from typing import TypeAlias, Unpack

import torch

from antiphon.contracts.family import LoadContext
from antiphon.engine.model_runner.model_runner import ModelRunner
from antiphon.families.kit.loading import RunnerOptions, like_of, runner_of
from antiphon.families.voxcpm2.config import load_config
from antiphon.families.voxcpm2.language_model import VoxCPM2Model
from antiphon.families.voxcpm2.networks import NetworkBuilder
from antiphon.families.voxcpm2.request import VoxCPM2Request
from antiphon.families.voxcpm2.weights import model_weights

VoxCPM2Runner: TypeAlias = ModelRunner[VoxCPM2Request]


def load_runner(
    context: LoadContext, *, max_positions: int | None = None, **how: Unpack[RunnerOptions]
) -> VoxCPM2Runner:
    """Load a checkpoint's language models and their runner; see `runner_of`.

    ``max_positions`` defaults to the longest request in the checkpoint's training.

    Raises:
        ModelLoadError: the checkpoint cannot be served.
    """
    config = load_config(context.checkpoint)
    like = like_of(context)
    max_positions = max_positions or config.max_positions
    opened = model_weights(
        context.checkpoint,
        config,
        like=like,
        progress=context.progress_of("language model"),
        is_dummy=context.is_dummy,
    )
    with torch.inference_mode(), opened as weights:
        model = VoxCPM2Model(
            NetworkBuilder(weights, context.is_deterministic),
            config,
            num_slots=context.max_slots,
            max_positions=max_positions,
        )
    return runner_of(context, model, max_positions, **how)
