import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from antiphon.errors import ModelLoadError
from antiphon.families.qwen_image.checkpoint import inspect, read_config
from antiphon.families.registry import checkpoint_family

CONFIGS = ("model_index.json", "transformer/config.json", "vae/config.json")


@pytest.fixture
def copied(drawing_checkpoint: Callable[..., Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(drawing_checkpoint("qwen_image"), tmp_path / "copied"))


def changed(file: Path, **values: Any) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text()), **values}))


def test_it_is_known_by_its_index(copied: Path) -> None:
    assert checkpoint_family(copied).name == "qwen_image"
    config = read_config(copied)
    assert (config.size_multiple, config.in_channels, config.inner_dim) == (16, 64, 64)


def test_it_is_told_what_it_is(copied: Path) -> None:
    found = inspect(copied)
    assert found.problems == ()
    assert found.facts["Pipeline"] == "QwenImagePipeline"
    components = {row[0]: row for row in found.tables[0].rows}
    assert components.keys() == {"text_encoder", "transformer", "vae"}
    assert sum(int(row[2]) for row in components.values()) == found.facts["Parameters"]


@pytest.mark.parametrize(
    ("file", "values", "said"),
    [
        ("model_index.json", {"vae": [None, None]}, "'vae' is missing"),
        ("model_index.json", {"vae": ["diffusers", "AutoencoderKL"]}, "AutoencoderKLQwenImage"),
        ("transformer/config.json", {"guidance_embeds": True}, "guidance_embeds"),
        ("transformer/config.json", {"in_channels": "many"}, "in_channels"),
        ("vae/config.json", {"temperal_downsample": 3}, "temperal_downsample"),
    ],
)
def test_what_cannot_be_served_is_named(
    copied: Path, file: str, values: dict[str, Any], said: str
) -> None:
    changed(copied / file, **values)
    with pytest.raises(ModelLoadError, match=said):
        read_config(copied)
    assert any(said in problem for problem in inspect(copied).problems)


def test_a_file_that_was_cut_is_named(copied: Path) -> None:
    file = copied / "transformer" / "diffusion_pytorch_model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    assert any(file.name in problem for problem in inspect(copied).problems)


def test_a_tensor_of_another_shape_is_named(copied: Path) -> None:
    file = copied / "vae" / "diffusion_pytorch_model.safetensors"
    tensors = load_file(file)
    name = min(name for name, tensor in tensors.items() if tensor.ndim > 1)
    tensors[name] = tensors[name][:1].contiguous()
    save_file(tensors, file)
    (problem,) = inspect(copied).problems
    assert f"{file.parent}: tensors of another shape: {name} is [1," in problem
