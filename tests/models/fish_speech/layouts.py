"""The layout that the conformance suite would not make by itself."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from antiphon.models.fish_speech.random_checkpoint import make_checkpoint

LAYOUTS: Mapping[str, Callable[[Path], None]] = {"s1": partial(make_checkpoint, task="s1")}
