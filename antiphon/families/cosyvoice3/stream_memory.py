"""How much memory a stream's state takes, and how many streams a device has room for."""

import logging
import os

import torch

from antiphon.contracts.family import LoadContext
from antiphon.families.cosyvoice3.config import MelFlowConfig
from antiphon.families.cosyvoice3.dit import NUM_PASSES, NUM_STEPS
from antiphon.families.cosyvoice3.flow_context import cache_dtype, slot_frames

_log = logging.getLogger(__name__)

_SHARE = 0.8
"""Of a device's memory; the rest is for what a step computes, and for others."""
_NETWORKS = 1.5  # in their files' sizes: the language model's cache beside them


def stream_bytes(config: MelFlowConfig, device: torch.device) -> int:
    """Return what the keys and values of the longest recording and its speech take."""
    numbers = 2 * NUM_STEPS * NUM_PASSES * config.num_layers * config.num_heads * config.head_dim
    return slot_frames(config) * numbers * cache_dtype(device).itemsize


def slots_that_fit(context: LoadContext, config: MelFlowConfig, device: torch.device) -> int:
    """Return how many streams may run at once: as many as settings say, if they fit.

    Nobody's speech is then lost to a stream for which there is no memory left. Language model and
    decoder reckon alike, whether they share a device or each has one.
    """
    size = stream_bytes(config, device)
    networks = sum(file.stat().st_size for file in context.checkpoint.glob("*.pt")) * _NETWORKS
    room = _memory_bytes(device) * (context.memory_fraction or 1.0) * _SHARE - networks
    num_slots = min(context.max_slots, max(1, int(room // size)))
    if num_slots < context.max_slots:
        _log.warning(
            "%d requests run at once, not %d: each may take %.1f GiB on %s",
            *(num_slots, context.max_slots, size / 2**30, device),
        )
    return num_slots


def _memory_bytes(device: torch.device) -> int:
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[1])
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
