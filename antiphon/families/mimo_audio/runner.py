"""Loader of a checkpoint's language model and of the runner that drives it."""

from typing import TypeAlias, Unpack

import torch

from antiphon.contracts.family import LoadContext
from antiphon.engine.model_runner.kv_cache import KVBudget
from antiphon.engine.model_runner.model_runner import ModelRunner
from antiphon.families.kit.loading import RunnerOptions, like_of, runner_of
from antiphon.families.mimo_audio.checkpoint import layout_of
from antiphon.families.mimo_audio.config import MAX_POSITIONS, MiMoAudioConfig
from antiphon.families.mimo_audio.config_reader import load_config, load_tokenizer_config
from antiphon.families.mimo_audio.language_model import MiMoAudioModel
from antiphon.families.mimo_audio.request import MiMoAudioRequest
from antiphon.families.mimo_audio.sampling import TEXT
from antiphon.families.mimo_audio.stream_memory import reserved_bytes
from antiphon.families.mimo_audio.text_tokenizer import load_text_tokenizer
from antiphon.families.mimo_audio.tokenizer_path import found_tokenizer
from antiphon.nn.weights import open_weights

MiMoAudioRunner: TypeAlias = ModelRunner[MiMoAudioRequest]


def load_runner(context: LoadContext, **how: Unpack[RunnerOptions]) -> MiMoAudioRunner:
    """Load a checkpoint's language model and its runner; see `runner_of`.

    Raises:
        ModelLoadError: the checkpoint cannot be served.
    """
    model = load_language_model(context)
    budget = _budget(context, model.config)
    return runner_of(context, model, MAX_POSITIONS, budget=budget, **how)


def _budget(context: LoadContext, config: MiMoAudioConfig) -> KVBudget:
    """Return the cache budget, excluding the decoder's memory for streams."""
    num_reserved = 0
    if (audio_path := found_tokenizer(context.checkpoint)) is not None:
        audio = load_tokenizer_config(audio_path, config)
        is_exact = context.dtype == "float32"
        num_reserved = reserved_bytes(audio, context.max_slots, is_exact=is_exact)
    return KVBudget(
        context.max_slots,
        MAX_POSITIONS,
        context.cache_bytes,
        context.memory_utilization,
        num_reserved,
    )


def load_language_model(context: LoadContext) -> MiMoAudioModel:
    """Load the language model and its local transformers from a checkpoint's directory.

    Raises:
        ModelLoadError: tensors are missing or have the wrong shape.
    """
    config = load_config(context.checkpoint)
    tokenizer = load_text_tokenizer(context.checkpoint, config.vocab_size)
    like = like_of(context)
    opened = open_weights(
        context.checkpoint,
        layout_of(config),
        like=like,
        progress=context.progress_of("language model"),
    )
    with torch.inference_mode(), opened as weights:
        return MiMoAudioModel(
            config,
            weights,
            empty_id=tokenizer.empty_id,
            stop_ids=tokenizer.stop_ids,
            usual=TEXT,
            num_slots=context.max_slots,
            max_positions=MAX_POSITIONS,
            is_batch_invariant=context.is_deterministic,
        )
