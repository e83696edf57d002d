"""What a checkpoint is, by its configuration, and why one cannot be served."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from antiphon.errors import ModelLoadError
from antiphon.families.registry import resolve
from antiphon.families.wan_video.config import inspect, load_config
from tests.families.wan_video.conftest import WanCheckpoint
from tests.families.wan_video.official import LAYOUTS

Change = Callable[[str, dict[str, Any]], Path]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_layout_is_recognized(wan: WanCheckpoint, layout: str) -> None:
    path = wan(layout)
    family, found = resolve(str(path))
    assert (family.name, found) == ("wan_video", path)
    assert load_config(path).layout == layout
    told = inspect(path)
    assert told.problems == ()
    assert told.facts["Layout"] == layout


@pytest.fixture
def change(wan: WanCheckpoint, tmp_path: Path) -> Change:
    def copy(file: str, changed: dict[str, Any]) -> Path:
        path = tmp_path / "copy"
        shutil.copytree(wan("t2v-2.2-a14b"), path)
        content = json.loads((path / file).read_text(encoding="utf-8")) | changed
        (path / file).write_text(json.dumps(content), encoding="utf-8")
        return path

    return copy


@pytest.mark.parametrize(
    ("file", "changed", "said"),
    [
        ("model_index.json", {"boundary_ratio": None}, "'boundary_ratio' must be there"),
        ("model_index.json", {"boundary_ratio": 2}, "must be 0 to 1"),
        ("model_index.json", {"transformer_2": [None, None]}, "'boundary_ratio' must be there"),
        ("model_index.json", {"expand_timesteps": 1}, "must be true or false"),
        ("model_index.json", {"vae": ["diffusers", "AutoencoderKL"]}, "AutoencoderKLWan"),
        ("model_index.json", {"scheduler": ["diffusers", "DDIMScheduler"]}, "DDIMScheduler"),
        ("transformer/config.json", {"in_channels": 20}, "must be 16 or 36"),
        ("transformer/config.json", {"patch_size": [2, 2]}, "three numbers"),
        ("transformer/config.json", {"pos_embed_seq_len": 514}, "'pos_embed_seq_len' is 514"),
        ("transformer_2/config.json", {"num_layers": 3}, "other sizes"),
        ("transformer/config.json", {"image_dim": 16}, "image_encoder' is missing"),
    ],
)
def test_a_checkpoint_that_cannot_be_served_says_why(
    change: Change, file: str, changed: dict[str, Any], said: str
) -> None:
    path = change(file, changed)
    with pytest.raises(ModelLoadError, match=said):
        load_config(path)
    (problem,) = inspect(path).problems
    assert str(path) in problem


def test_flops_are_those_of_the_published_sizes(wan: WanCheckpoint) -> None:
    """A pass costs two operations for each parameter of a block and position, and attention."""
    config = load_config(wan("t2v-2.1")).transformer
    few, many = config.num_flops(100), config.num_flops(200)
    assert 2 * few < many < 4 * few
