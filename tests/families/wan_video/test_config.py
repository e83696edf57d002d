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


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"size": "tiny", "task": "base"}, "no task 'base'"),
        ({"size": "1.3b", "task": "i2v-2.1"}, "no size '1.3b'"),
        ({"size": "tiny", "dtype": "int8"}, "no dtype 'int8'"),
        ({"size": "tiny", "vocabulary": "full"}, "no vocabulary 'full'"),
    ],
)
def test_what_cannot_be_made_is_said(tmp_path: Path, given: dict[str, str], said: str) -> None:
    from antiphon.families.wan_video.sizes import make_checkpoint

    with pytest.raises(ModelLoadError, match=said):
        make_checkpoint(tmp_path / "made", **given)


def test_full_sizes_are_those_that_are_published(tmp_path: Path) -> None:
    import torch

    from antiphon.diffusion.tensor_shapes import network_of
    from antiphon.families.wan_video.sizes import make_checkpoint

    # Parameters of the transformers in the published checkpoints.
    published = {
        ("t2v-2.1", "1.3b"): 1_418_996_800,
        ("t2v-2.1", "14b"): 14_288_491_584,
        ("ti2v-2.2-5b", "5b"): 4_999_787_712,
    }
    for (layout, size), num_parameters in published.items():
        make_checkpoint(tmp_path / size, size=size, task=layout)
        with torch.device("meta"):
            network = network_of(tmp_path / size / "transformer", "WanTransformer3DModel")
        assert sum(each.numel() for each in network.parameters()) == num_parameters
