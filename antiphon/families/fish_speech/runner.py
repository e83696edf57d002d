"""Loader of both models of a checkpoint and of the runner that drives them."""

import logging
from typing import TypeAlias, Unpack

import torch

from antiphon.contracts.family import LoadContext
from antiphon.engine.model_runner.model_runner import ModelRunner
from antiphon.families.fish_speech.config import LICENCE, MAX_POSITIONS, load_config
from antiphon.families.fish_speech.dual_ar import SlowModel, load_fast_model
from antiphon.families.fish_speech.language_model import DualARModel
from antiphon.families.fish_speech.request import FishSpeechRequest
from antiphon.families.fish_speech.weights import model_weights
from antiphon.families.kit.loading import RunnerOptions, like_of, runner_of

FishSpeechRunner: TypeAlias = ModelRunner[FishSpeechRequest]

_log = logging.getLogger(__name__)


def load_runner(
    context: LoadContext, *, max_positions: int = MAX_POSITIONS, **how: Unpack[RunnerOptions]
) -> FishSpeechRunner:
    """Load a checkpoint's models and their runner; see `runner_of`.

    Raises:
        ModelLoadError: the checkpoint cannot be served.
    """
    return runner_of(context, load_model(context, max_positions), max_positions, **how)


def load_model(context: LoadContext, max_positions: int = MAX_POSITIONS) -> DualARModel:
    """Load both models from a checkpoint's directory, and log the terms of its licence.

    Raises:
        ModelLoadError: tensors are missing or have the wrong shape.
    """
    config = load_config(context.checkpoint)
    _log.warning("%s: Fish Speech weights are under the %s.", context.checkpoint, LICENCE)
    like = like_of(context)
    opened = model_weights(
        context.checkpoint, config, like=like, progress=context.progress_of("language model")
    )
    is_invariant = context.is_deterministic
    with torch.inference_mode(), opened as weights:
        return DualARModel(
            SlowModel.of(weights, config, max_positions, is_batch_invariant=is_invariant),
            load_fast_model(weights, config, is_batch_invariant=is_invariant),
            num_slots=context.max_slots,
            max_positions=max_positions,
        )
