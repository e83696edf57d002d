"""Tiny checkpoints of random weights in each layout."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.families.wan_video.official import LAYOUTS

WanCheckpoint = Callable[[str], Path]


@pytest.fixture(scope="session")
def wan(tmp_path_factory: pytest.TempPathFactory) -> WanCheckpoint:
    """Return the directory of a tiny checkpoint, by its layout."""

    @cache
    def make(layout: str) -> Path:
        import torch

        from tests.families.wan_video.random_checkpoint import make_checkpoint

        assert layout in LAYOUTS
        torch.set_num_threads(1)  # tiny products are slower on several cores
        path = tmp_path_factory.mktemp(layout)
        make_checkpoint(path, size="tiny", task=layout)
        return path

    return make
