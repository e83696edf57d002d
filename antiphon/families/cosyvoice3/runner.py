"""Loader of a checkpoint's language model and of the runner that drives it."""

from dataclasses import replace
from typing import TypeAlias, Unpack

import torch

from antiphon.contracts.family import LoadContext
from antiphon.engine.model_runner.model_runner import ModelRunner
from antiphon.families.cosyvoice3 import checkpoint as schema
from antiphon.families.cosyvoice3.bounds import MAX_POSITIONS
from antiphon.families.cosyvoice3.config import load_config
from antiphon.families.cosyvoice3.language_model import SpeechLM
from antiphon.families.cosyvoice3.request import CosyVoice3Request
from antiphon.families.cosyvoice3.stream_memory import slots_that_fit
from antiphon.families.cosyvoice3.weights import read_tensors
from antiphon.families.kit.loading import RunnerOptions, like_of, runner_of

CosyVoice3Runner: TypeAlias = ModelRunner[CosyVoice3Request]


def load_runner(
    context: LoadContext, *, max_positions: int = MAX_POSITIONS, **how: Unpack[RunnerOptions]
) -> CosyVoice3Runner:
    """Load a checkpoint's language model and its runner; see `runner_of`.

    Raises:
        ModelLoadError: the checkpoint cannot be served.
    """
    config = load_config(context.checkpoint)
    like = like_of(context)
    context = replace(context, max_slots=slots_that_fit(context, config.flow, like.device))
    with torch.inference_mode():
        weights = read_tensors(
            context.checkpoint / schema.LANGUAGE_FILE,
            schema.language_layout(config),
            like=like,
            unused=schema.LANGUAGE_UNUSED,
        )
        model = SpeechLM(
            config,
            weights,
            num_slots=context.max_slots,
            max_positions=max_positions,
            is_batch_invariant=context.is_deterministic,
        )
        del weights
    return runner_of(context, model, max_positions, **how)
