"""A checkpoint is known by its configuration, all of it is checked, and what is wrong is named."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from antiphon.errors import ModelLoadError
from antiphon.families.registry import checkpoint_family
from antiphon.families.voxcpm2.checkpoint import inspect, model_layout, vae_layout
from antiphon.families.voxcpm2.config import load_config
from antiphon.families.voxcpm2.language_model import load_runner
from antiphon.families.voxcpm2.sizes import make_checkpoint as make_files
from tests.families.voxcpm2.conftest import context_of
from tests.families.voxcpm2.random_checkpoint import make_checkpoint

Change = Callable[[dict[str, Any]], object]


@pytest.fixture
def copied(checkpoint: Path, tmp_path: Path) -> Path:
    shutil.copytree(checkpoint, tmp_path, dirs_exist_ok=True)
    return tmp_path


def changed(path: Path, change: Change) -> None:
    config = json.loads((path / "config.json").read_text(encoding="utf-8"))
    change(config)
    (path / "config.json").write_text(json.dumps(config), encoding="utf-8")


def test_it_is_known_and_told_of(checkpoint: Path) -> None:
    assert checkpoint_family(checkpoint).name == "voxcpm2"
    found = inspect(checkpoint)
    assert found.problems == ()
    assert found.facts["Audio"] == "48000 Hz, 25 frames a second"
    parts = {row[0] for row in found.tables[0].rows}
    assert {"language model", "residual model", "flow", "AudioVAE decoder"} <= parts


def test_the_published_size_is_that_of_the_paper(tmp_path: Path) -> None:
    make_files(tmp_path, size="2b", dtype="bfloat16")
    config = load_config(tmp_path)
    numbers = sum(int(np.prod(shape)) for shape in model_layout(config).values())
    assert 2.0e9 < numbers < 2.5e9
    assert config.samples_per_frame == 7680
    assert config.encoded_samples_per_frame == 2560
    assert config.residual.rotary_dim == 0
    assert config.vae.sample_rate_bin == 3
    assert ("decoder.model.7.block.1.weight_v", (64, 32, 4)) in vae_layout(config.vae).items()


@pytest.mark.parametrize(
    ("change", "key"),
    [
        (lambda config: config.update(architecture="voxcpm"), "architecture"),
        (lambda config: config["lm_config"].update(num_key_value_heads=3), "num_key_value_heads"),
        (lambda config: config["lm_config"].update(vocab_size=104), "vocab_size"),
        (
            lambda config: config["lm_config"]["rope_scaling"].update(long_factor=[1.0]),
            "long_factor",
        ),
        (lambda config: config["dit_config"]["cfm_config"].update(solver="heun"), "solver"),
        (lambda config: config["audio_vae_config"].update(use_noise_block=True), "use_noise"),
        (lambda config: config["audio_vae_config"].update(cond_type="concat"), "cond_type"),
        (lambda config: config["audio_vae_config"].update(depthwise=False), "depthwise"),
        (lambda config: config.update(residual_lm_no_rope=False), "residual_lm_no_rope"),
        (lambda config: config["dit_config"].update(dit_mean_mode=True), "dit_mean_mode"),
        (lambda config: config.update(feat_dim=16), "feat_dim"),
        (lambda config: config["encoder_config"].update(num_heads=0), "num_heads"),
        (lambda config: config.pop("lm_config"), "lm_config"),
    ],
)
def test_configurations_that_are_wrong_name_their_key(
    change: Change, key: str, copied: Path
) -> None:
    changed(copied, change)
    with pytest.raises(ModelLoadError, match=key):
        load_config(copied)
    assert any(key in problem for problem in inspect(copied).problems)


def test_every_tensor_must_be_there_and_nothing_else(copied: Path) -> None:
    file = copied / "model.safetensors"
    weights = load_file(file)
    del weights["stop_head.weight"]
    weights["lora_A"] = np.zeros(1, np.float32)
    save_file(weights, file)
    with pytest.raises(ModelLoadError, match=r"stop_head.*lora_A"):
        load_runner(context_of(copied), max_positions=32)
    assert any("stop_head" in problem for problem in inspect(copied).problems)


def test_an_unscaled_model_differs(copied: Path, checkpoint: Path) -> None:
    changed(copied, lambda config: config["lm_config"].update(use_mup=False))
    plain, scaled = load_config(copied), load_config(checkpoint)
    assert plain.branch_scales == (1.0,) * 4
    assert scaled.branch_scales == pytest.approx((1.4 / 2**0.5, 1.4, 1.4 / 2**0.5, 1.4 / 2**0.5))
    assert (plain.embedding_scale, scaled.embedding_scale) == (1.0, 12.0)


def test_a_broken_tokenizer_is_told(copied: Path) -> None:
    (copied / "tokenizer.json").write_text("{}", encoding="utf-8")
    assert any("tokenizer.json" in problem for problem in inspect(copied).problems)


def test_checkpoints_repeat_and_can_be_sharded(checkpoint: Path, tmp_path: Path) -> None:
    make_checkpoint(tmp_path, shards=3)
    whole = load_file(checkpoint / "model.safetensors")
    parts: dict[str, Any] = {}
    for file in tmp_path.glob("model-*.safetensors"):
        parts |= load_file(file)
    assert parts.keys() == whole.keys()
    assert all(np.array_equal(parts[name], whole[name]) for name in whole)
    assert inspect(tmp_path).problems == ()
    kind: Any = "huge"
    with pytest.raises(ModelLoadError, match="size 'huge'"):
        make_checkpoint(tmp_path, size=kind)
