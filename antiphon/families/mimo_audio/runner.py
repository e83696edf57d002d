"""Loader of a checkpoint's language model and of the runner that drives it."""

from collections import ChainMap
from collections.abc import MutableMapping
from typing import TypeAlias, Unpack, cast

import torch
from torch import Tensor

from antiphon.contracts.family import LoadContext
from antiphon.engine.model_runner.kv_cache import KVBudget
from antiphon.engine.model_runner.model_runner import ModelRunner
from antiphon.engine.runner import SLOT_RESERVE_BYTES
from antiphon.families.kit.loading import RunnerOptions, runner_of, weights_for
from antiphon.families.mimo_audio.checkpoint import model_part
from antiphon.families.mimo_audio.config import (
    MAX_POSITIONS,
    PASS_GROUPS,
    AudioTokenizerConfig,
    MiMoAudioConfig,
    NetConfig,
)
from antiphon.families.mimo_audio.config_reader import (
    found_tokenizer,
    load_config,
    load_tokenizer_config,
)
from antiphon.families.mimo_audio.language_model import MiMoAudioModel
from antiphon.families.mimo_audio.options import TEXT
from antiphon.families.mimo_audio.request import MiMoAudioRequest
from antiphon.families.mimo_audio.text_tokenizer import load_text_tokenizer
from antiphon.nn.layers import Weights

MiMoAudioRunner: TypeAlias = ModelRunner[MiMoAudioRequest]

_FLOAT_BYTES, _HALF_BYTES = 4, 2
_LEAN = 200.0
"""Magnitude far above the other numbers of a state before the last norm, in any size."""
_HEAD_GAIN = 10.0


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
    opened = model_part(context.checkpoint, config).open(**weights_for(context, "language model"))
    with torch.inference_mode(), opened as weights:
        if context.is_dummy:
            weights = _all_audio(weights, config, tokenizer.empty_id)
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


def _all_audio(weights: Weights, config: MiMoAudioConfig, empty_id: int) -> Weights:
    """Return random weights by which every group is audio: its id scores above all others.

    The bias of values is part of each head's result for any attention. The last layer makes a large
    number of it, which the head of that id reads.
    """
    last = f"model.layers.{config.transformer.num_layers - 1}.self_attn"
    changed: dict[str, Tensor] = {
        name: weights[name]
        for name in (f"{last}.v_proj.bias", f"{last}.o_proj.weight", "lm_head.weight")
    }
    bias, output, head = changed.values()
    bias[:] = 1
    output[0] = _LEAN / output.shape[1]
    head[empty_id] = 0
    head[empty_id, 0] = _HEAD_GAIN
    return ChainMap(changed, cast("MutableMapping[str, Tensor]", weights))


def stream_bytes(config: AudioTokenizerConfig, *, is_exact: bool) -> int:
    """Return the size of a stream's ring buffers, which are nearly all of its state.

    Args:
        config: configuration of the tokenizer.
        is_exact: whether keys and values are float32 rather than float16.
    """
    stacks = (
        (config.decoder, PASS_GROUPS * config.group_positions),
        (config.vocoder, PASS_GROUPS * config.group_mels),
    )
    total = 0
    for net, num_positions in stacks:
        before, right = _window(net)
        width = 2 * net.num_layers * net.hidden_size
        item = _FLOAT_BYTES if is_exact else _HALF_BYTES
        total += width * (before + right + num_positions) * item
        total += width * (right + num_positions) * _FLOAT_BYTES if right else 0
    return total


def reserved_bytes(config: AudioTokenizerConfig, num_slots: int, *, is_exact: bool) -> int:
    """Return the memory of all slots and of padding beyond the usual reserve."""
    beyond = stream_bytes(config, is_exact=is_exact) - SLOT_RESERVE_BYTES
    return max(0, beyond) * (num_slots + 1)


def _window(net: NetConfig) -> tuple[int, int]:
    assert net.left is not None, "its window is bounded"
    assert net.right is not None, "its window is bounded"
    return net.left, net.right
