"""Loads talker and predictor, and makes room for the requests that they serve."""

from pathlib import Path

import torch
from torch import Tensor

from antiphon.models.qwen3_tts.config import Qwen3TTSConfig
from antiphon.models.qwen3_tts.kv_budget import (
    KVBudget,
    allocated_bytes,
    log_memory,
    num_cache_blocks,
)
from antiphon.models.qwen3_tts.language_model import LanguageModel
from antiphon.models.qwen3_tts.predictor import Predictor
from antiphon.models.qwen3_tts.talker import Talker
from antiphon.models.qwen3_tts.weights import language_model_weights
from antiphon.nn.weights import Progress


def load_language_model(
    path: Path,
    config: Qwen3TTSConfig,
    room: KVBudget,
    *,
    like: Tensor,
    is_batch_invariant: bool = False,
    progress: Progress | None = None,
    uses_graphs: bool = True,
) -> LanguageModel:
    """Load talker and predictor from a checkpoint's directory.

    Args:
        path: the directory.
        config: read from it.
        room: for requests.
        like: a tensor of the wanted type, on the wanted device.
        is_batch_invariant: whether on a GPU a frame must not depend on its company by rounding.
        progress: told of every tensor that has been read.
        uses_graphs: where there is a GPU.

    Raises:
        ModelLoadError: tensors are missing, or of the wrong shape.
    """
    num_bytes_before = allocated_bytes(like.device)
    with (
        torch.inference_mode(),
        language_model_weights(path, config, like=like, progress=progress) as weights,
    ):
        talker = Talker.of(
            weights, config.talker, room.max_positions, is_batch_invariant=is_batch_invariant
        )
        predictor = Predictor.of(
            weights, config.predictor, talker.frame_table, is_batch_invariant=is_batch_invariant
        )
        num_weight_bytes = allocated_bytes(like.device) - num_bytes_before
        num_blocks = num_cache_blocks(config.talker.transformer, like, room)
        model = LanguageModel(
            config,
            talker,
            predictor,
            num_slots=room.num_slots,
            max_positions=room.max_positions,
            num_blocks=num_blocks,
            uses_graphs=uses_graphs,
        )
    log_memory(num_weight_bytes, model.cache, model.slots.num_bytes)
    return model
