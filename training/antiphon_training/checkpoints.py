"""Checkpoints of a training: written whole or not at all."""

from pathlib import Path
from typing import Any

import torch


def save_checkpoint(path: Path, state: dict[str, Any]) -> None:
    partial = path.with_name(f".{path.name}")
    torch.save(state, partial)
    partial.replace(path)


def load_checkpoint(path: Path, device: torch.device) -> dict[str, Any]:
    state: dict[str, Any] = torch.load(path, map_location=device, weights_only=True)
    return state
