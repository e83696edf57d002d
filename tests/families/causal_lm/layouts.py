"""Checkpoints in the layouts beside the one that the family's maker writes by default."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from tests.families.causal_lm.random_checkpoint import make_checkpoint

LAYOUTS: Mapping[str, Callable[[Path], None]] = {
    "qwen2": partial(make_checkpoint, size="tiny", task="qwen2"),
    "llama": partial(make_checkpoint, size="tiny", task="llama"),
    "omni": partial(make_checkpoint, size="tiny", task="omni"),
    "thinker": partial(make_checkpoint, size="tiny", task="thinker"),
}
