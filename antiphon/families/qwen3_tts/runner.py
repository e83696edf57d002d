"""Loading of talker and predictor of a checkpoint, and of their runner."""

from dataclasses import replace
from typing import TypeAlias, Unpack

import torch

from antiphon.contracts.family import LoadContext
from antiphon.engine.model_runner.model_runner import ModelRunner
from antiphon.families.kit.loading import RunnerOptions, like_of, runner_of
from antiphon.families.qwen3_tts.config_reader import load_config
from antiphon.families.qwen3_tts.language_model import FusedLanguageModel, LanguageModel
from antiphon.families.qwen3_tts.request import Qwen3TTSRequest
from antiphon.families.qwen3_tts.stopping import MAX_POSITIONS
from antiphon.families.qwen3_tts.talker import Talker, load_predictor
from antiphon.families.qwen3_tts.weights import language_model_weights
from antiphon.nn import kernels

Qwen3TTSRunner: TypeAlias = ModelRunner[Qwen3TTSRequest]


def load_runner(
    context: LoadContext,
    *,
    max_positions: int = MAX_POSITIONS,
    cache_bytes: int | None = None,
    **how: Unpack[RunnerOptions],
) -> Qwen3TTSRunner:
    """Load a checkpoint's language model and its runner; see `runner_of`.

    Raises:
        ModelLoadError: the checkpoint cannot be served.
    """
    context = replace(context, cache_bytes=cache_bytes or context.cache_bytes)
    return runner_of(context, load_language_model(context, max_positions), max_positions, **how)


def load_language_model(context: LoadContext, max_positions: int = MAX_POSITIONS) -> LanguageModel:
    """Load talker and predictor from a checkpoint's directory.

    Raises:
        ModelLoadError: tensors are missing, or of the wrong shape.
    """
    config, like = load_config(context.checkpoint), like_of(context)
    is_invariant = context.is_deterministic
    opened = language_model_weights(
        context.checkpoint,
        config,
        like=like,
        progress=context.progress_of("talker"),
        is_dummy=context.is_dummy,
    )
    with torch.inference_mode(), opened as weights:
        talker = Talker.of(weights, config.talker, max_positions, is_batch_invariant=is_invariant)
        predictor = load_predictor(
            weights, config.predictor, talker.frame_table, is_batch_invariant=is_invariant
        )
        kind = FusedLanguageModel if kernels.run_on(like) else LanguageModel
        return kind(
            config, talker, predictor, num_slots=context.max_slots, max_positions=max_positions
        )
