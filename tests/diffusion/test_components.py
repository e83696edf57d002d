import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from diffusers import AutoencoderKL, FlowMatchEulerDiscreteScheduler, OvisImageTransformer2DModel
from safetensors.torch import load_file, save_file
from transformers import Qwen2Tokenizer, Qwen3Model

from antiphon.contracts.family import LoadContext
from antiphon.diffusion.components import ComponentLoader
from antiphon.errors import ModelLoadError
from tests.diffusion.random_pipeline import RandomPipeline, write_pipeline

WEIGHTS = "diffusion_pytorch_model.safetensors"


def make(path: Path, *, shards: int = 1, seed: int = 0) -> None:
    with torch.device("meta"):
        network = AutoencoderKL(block_out_channels=(4,), norm_num_groups=2, layers_per_block=1)
    write_pipeline(
        path,
        RandomPipeline(
            pipeline="OvisImagePipeline",
            networks={"vae": network},
            others={"scheduler": FlowMatchEulerDiscreteScheduler(shift=2.0)},
            missing=("transformer",),
        ),
        shards=shards,
        seed=seed,
    )


def loader(path: Path, dtype: str = "float32") -> ComponentLoader:
    return ComponentLoader(LoadContext(path=path, device="cpu", dtype=dtype))


def test_components_are_loaded_one_by_one(tmp_path: Path) -> None:
    make(tmp_path, shards=3)
    found = loader(tmp_path, "bfloat16")
    vae = found.module("vae", AutoencoderKL)
    assert {each.dtype for each in vae.parameters()} == {torch.bfloat16}
    assert not any(each.requires_grad for each in vae.parameters())
    assert not vae.training
    assert found.other("scheduler", FlowMatchEulerDiscreteScheduler).config.shift == 2.0


def test_progress_is_told_in_bytes(tmp_path: Path) -> None:
    make(tmp_path)
    told: list[tuple[str, int, int]] = []
    context = LoadContext(
        path=tmp_path, device="cpu", progress=lambda *progress: told.append(progress)
    )
    ComponentLoader(context).module("vae", AutoencoderKL)
    size = (tmp_path / "vae" / WEIGHTS).stat().st_size
    assert told == [("vae", 0, size), ("vae", size, size)]


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    make(tmp_path)
    with pytest.raises(ModelLoadError, match="'transformer' is missing"):
        loader(tmp_path).module("transformer", OvisImageTransformer2DModel)
    shutil.rmtree(tmp_path / "scheduler")
    with pytest.raises(ModelLoadError, match="no such directory"):
        loader(tmp_path).other("scheduler", FlowMatchEulerDiscreteScheduler)


@pytest.mark.parametrize("change", ["missing", "added", "reshaped", "cut", "gone"])
def test_tensors_that_are_not_those_of_the_configuration_are_refused(
    tmp_path: Path, change: str
) -> None:
    make(tmp_path)
    file = tmp_path / "vae" / WEIGHTS
    tensors = load_file(file)
    name = "decoder.conv_in.weight"
    if change == "missing":
        del tensors[name]
    elif change == "added":
        tensors["another"] = torch.zeros(3)
    elif change == "reshaped":
        tensors[name] = torch.zeros(7, 7)
    save_file(tensors, file)
    if change == "cut":
        file.write_bytes(file.read_bytes()[:-64])
    elif change == "gone":
        file.unlink()
    with pytest.raises(ModelLoadError, match=str(tmp_path / "vae")) as refused:
        loader(tmp_path).module("vae", AutoencoderKL)
    if change in ("missing", "reshaped"):
        assert name in str(refused.value)


def test_a_text_encoder_that_lacks_a_tensor_is_refused(
    drawing_checkpoint: Callable[..., Path], tmp_path: Path
) -> None:
    path = Path(shutil.copytree(drawing_checkpoint("ovis_image"), tmp_path / "copied"))
    assert loader(path).other("tokenizer", Qwen2Tokenizer)("a cat").input_ids
    file = path / "text_encoder" / "model.safetensors"
    tensors = load_file(file)
    del tensors["norm.weight"]
    save_file(tensors, file, {"format": "pt"})
    with pytest.raises(ModelLoadError, match=r"missing keys: norm\.weight"):
        loader(path).module("text_encoder", Qwen3Model)


def test_random_weights_depend_on_their_seed_and_their_component(tmp_path: Path) -> None:
    for name, seed in (("one", 0), ("again", 0), ("other", 1)):
        make(tmp_path / name, seed=seed)
    one, again, other = (
        (tmp_path / name / "vae" / WEIGHTS).read_bytes() for name in ("one", "again", "other")
    )
    assert one == again
    assert one != other
    index = json.loads((tmp_path / "one" / "model_index.json").read_text())
    assert index["transformer"] == [None, None]
