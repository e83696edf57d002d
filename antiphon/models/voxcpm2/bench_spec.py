"""What measurements need to know: how to make speech never end, and what a frame must multiply."""

from pathlib import Path

import numpy as np

from antiphon.models.measuring import Product
from antiphon.models.voxcpm2 import footprint
from antiphon.models.voxcpm2.config import load_config
from antiphon.models.weight_edits import write_rows


def make_endless(path: Path) -> None:
    """Change a checkpoint of random weights so that its speech never ends by itself.

    Both scores of the stop head become zero, and a tie goes on.
    """
    zeros = np.zeros(load_config(path).base.hidden_size, np.float32)
    write_rows(path, {"stop_head.weight": {0: zeros, 1: zeros}})


def frame_products(path: Path) -> list[Product]:
    """Return the matrix products of one frame, in order, with the usual number of steps."""
    return footprint.frame_products(load_config(path))
