"""The maker refuses what it cannot make, and makes the published sizes."""

from pathlib import Path

import pytest

from antiphon.errors import ModelLoadError


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
