"""How many blocks of keys and values a device gets, and what its memory is used for."""

import logging
from dataclasses import dataclass

import torch
from torch import Tensor

from antiphon.models.qwen3_tts.config import TransformerConfig
from antiphon.nn.attention import PagedCache

logger = logging.getLogger(__name__)

BLOCK_POSITIONS = 16
_USUAL_POSITIONS = 384  # of a request: nearly half a minute of speech with its prompt
_USUAL_CPU_POSITIONS = 128  # few of a CPU's slots are in use at once
_STREAM_FRAMES = 375  # 30 s
_MIB = 2**20


@dataclass(frozen=True, slots=True)
class KVBudget:
    """How much shall fit.

    Attributes:
        num_slots: requests under way at once.
        max_positions: of each, prompt and frames together.
        cache_bytes: for the keys and values of all; ``None``: on a GPU enough for nearly half a
            minute in all slots, elsewhere for a third of that.
    """

    num_slots: int
    max_positions: int
    cache_bytes: int | None = None


def num_cache_blocks(config: TransformerConfig, like: Tensor, room: KVBudget) -> int:
    """Return how many blocks there shall be: at least as many as the longest request takes.

    Args:
        config: of the transformer whose keys and values they hold.
        like: a tensor of their type, on their device.
        room: that there shall be.
    """
    if room.cache_bytes is not None:
        position_bytes = 2 * config.num_layers * config.num_kv_heads * config.head_dim
        num_blocks = room.cache_bytes // (position_bytes * like.element_size() * BLOCK_POSITIONS)
    else:
        usual = _USUAL_POSITIONS if like.is_cuda else _USUAL_CPU_POSITIONS
        num_blocks = room.num_slots * min(usual, room.max_positions) // BLOCK_POSITIONS
    return max(num_blocks, num_blocks_of(room.max_positions))


def num_blocks_of(num_positions: int) -> int:
    """Return how many blocks so many positions of one request take."""
    return -(-num_positions // BLOCK_POSITIONS)


def allocated_bytes(device: torch.device) -> int:
    """Return what is allocated on a GPU; 0 elsewhere, where nobody counts."""
    return torch.cuda.memory_allocated(device) if device.type == "cuda" else 0


def log_memory(num_weight_bytes: int, cache: PagedCache, num_slot_bytes: int) -> None:
    """Tell what memory is used for."""
    num_blocks = cache.spare_block
    weights = f"weights {num_weight_bytes / _MIB:.0f} MiB, " if num_weight_bytes else ""
    logger.info(
        "memory: %scache %.0f MiB (%d blocks, %d positions, %d streams of 30 s), "
        "%d slots' state %.0f MiB",
        weights,
        cache.tensor.nbytes / _MIB,
        num_blocks,
        num_blocks * cache.block_positions,
        num_blocks // num_blocks_of(_STREAM_FRAMES),
        len(cache.table) - 1,
        num_slot_bytes / _MIB,
    )
