"""The voice wren: the directory of its checkpoint."""

from pathlib import Path

CHECKPOINT = Path(__file__).parent / "checkpoint"
