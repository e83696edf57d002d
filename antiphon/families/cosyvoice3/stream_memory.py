"""Memory per stream, and the number of streams that fit on a device."""

import logging
import os

import torch

from antiphon.contracts.family import LoadContext
from antiphon.families.cosyvoice3.config import MelFlowConfig
from antiphon.families.cosyvoice3.dit import NUM_PASSES, NUM_STEPS
from antiphon.families.cosyvoice3.flow_context import cache_dtype, slot_frames

_log = logging.getLogger(__name__)

_SHARE = 0.8
"""Share of a device's memory; the rest is for activations and other processes."""
_NETWORKS = 1.5  # times their files' sizes, with the language model's cache


def stream_bytes(config: MelFlowConfig, device: torch.device) -> int:
    """Return the size of keys and values for the longest reference and its speech."""
    numbers = 2 * NUM_STEPS * NUM_PASSES * config.num_layers * config.num_heads * config.head_dim
    return slot_frames(config) * numbers * cache_dtype(device).itemsize


def slots_that_fit(context: LoadContext, config: MelFlowConfig, device: torch.device) -> int:
    """Return the number of concurrent streams: the configured number, reduced to what fits.

    This prevents a stream from failing for lack of memory. Language model and decoder compute the
    same number, whether they share a device or not.
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
