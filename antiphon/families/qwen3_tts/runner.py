"""Loads talker and predictor of a checkpoint, and the runner that drives them."""

from typing import TypeAlias

import torch

from antiphon.contracts.family import LoadContext
from antiphon.engine.model_runner.kv_cache import KVBudget
from antiphon.engine.model_runner.model_runner import ModelRunner
from antiphon.families.qwen3_tts.config_reader import load_config
from antiphon.families.qwen3_tts.language_model import FusedLanguageModel, LanguageModel
from antiphon.families.qwen3_tts.request import Qwen3TTSRequest
from antiphon.families.qwen3_tts.stopping import MAX_POSITIONS
from antiphon.families.qwen3_tts.talker import Talker, load_predictor
from antiphon.families.qwen3_tts.weights import language_model_weights
from antiphon.nn import kernels
from antiphon.nn.device import resolve_device, resolve_dtype

Qwen3TTSRunner: TypeAlias = ModelRunner[Qwen3TTSRequest]


def load_runner(
    context: LoadContext,
    *,
    is_batched: bool | None = None,
    copies_common: bool | None = None,
    uses_graphs: bool = True,
    max_positions: int = MAX_POSITIONS,
    cache_bytes: int | None = None,
) -> Qwen3TTSRunner:
    """Load a checkpoint's language model, and make room for the requests that it serves.

    Args:
        context: where and how.
        is_batched: see `ModelRunner`.
        uses_graphs: likewise.
        copies_common: likewise.
        max_positions: of a request, prompt and frames together.
        cache_bytes: for keys and values; by default what the slots usually need.

    Raises:
        ModelLoadError: the checkpoint cannot be served.
    """
    return ModelRunner(
        load_language_model(context, max_positions),
        KVBudget(
            context.max_slots,
            max_positions,
            cache_bytes or context.cache_bytes,
            context.memory_utilization,
        ),
        is_batched=is_batched,
        is_deterministic=context.is_deterministic,
        copies_common=copies_common,
        uses_graphs=uses_graphs,
        progress=context.progress_of("graphs"),
    )


def load_language_model(context: LoadContext, max_positions: int = MAX_POSITIONS) -> LanguageModel:
    """Load talker and predictor from a checkpoint's directory.

    Raises:
        ModelLoadError: tensors are missing, or of the wrong shape.
    """
    assert context.path is not None, "the family needs a checkpoint"
    config, device = (
        load_config(context.path),
        resolve_device(context.device, context.memory_fraction),
    )
    like = torch.empty(0, dtype=resolve_dtype(context.dtype, device), device=device)
    progress, is_invariant = context.progress_of("talker"), context.is_deterministic
    with (
        torch.inference_mode(),
        language_model_weights(context.path, config, like=like, progress=progress) as weights,
    ):
        talker = Talker.of(weights, config.talker, max_positions, is_batch_invariant=is_invariant)
        predictor = load_predictor(
            weights, config.predictor, talker.frame_table, is_batch_invariant=is_invariant
        )
        kind = FusedLanguageModel if kernels.run_on(like) else LanguageModel
        return kind(
            config, talker, predictor, num_slots=context.max_slots, max_positions=max_positions
        )
