"""Checkpoints of random weights that are done soon: as they are made, they speak for minutes."""

import json
from pathlib import Path


def make_brief(path: Path, max_frames: int = 25) -> None:
    """Have a checkpoint end what it says after so many frames, unless a request says otherwise."""
    file = path / "generation_config.json"
    content = json.loads(file.read_text(encoding="utf-8")) | {"max_new_tokens": max_frames}
    file.write_text(json.dumps(content), encoding="utf-8")
