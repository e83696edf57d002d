"""What measurements need to know: how to make speech never end."""

from pathlib import Path

import numpy as np
import torch

from antiphon.families.fish_speech.checkpoint import PICKLED_FILE, s2_name
from antiphon.families.fish_speech.config import load_config
from antiphon.families.kit.weight_edits import write_rows

_TABLE = "embeddings.weight"


def make_endless(path: Path) -> None:
    """Change a checkpoint of random weights so that its speech never ends by itself.

    The row that scores the end of speech becomes zero, and so does its score: about half of the
    semantic codes score higher, and all draws, those against repetitions too, are among thirty.
    """
    config = load_config(path)
    assert config.is_tied, "the embedding of a random checkpoint is its head"
    end, pickled = config.tokens.end, path / PICKLED_FILE
    if not pickled.is_file():
        zeros = np.zeros(config.slow.hidden_size, np.float32)
        write_rows(path, {s2_name(_TABLE): {end: zeros}})
        return
    tensors = torch.load(pickled, weights_only=True)
    tensors[_TABLE][end] = 0
    torch.save(tensors, pickled)
