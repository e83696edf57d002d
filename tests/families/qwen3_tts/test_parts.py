"""Each part of a checkpoint opens with exactly the tensors that its module takes."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from antiphon.contracts.family import LoadContext
from antiphon.errors import ModelLoadError
from antiphon.families.qwen3_tts.checkpoint import (
    codec_decoder_part,
    codec_encoder_part,
    language_model_part,
    speaker_encoder_part,
)
from antiphon.families.qwen3_tts.codec import decoder_of
from antiphon.families.qwen3_tts.config import CheckpointTask
from antiphon.families.qwen3_tts.config_reader import load_config
from antiphon.families.qwen3_tts.language_model import load_language_model
from antiphon.nn.weights import open_weights
from tests.families.qwen3_tts.random_checkpoint import Size, make_full_checkpoint

LIKE = torch.empty(0)


@pytest.fixture
def base(checkpoint: Callable[[Size, CheckpointTask], Path]) -> Path:
    return checkpoint("tiny", CheckpointTask.BASE)


def test_parts_are_disjoint_and_leave_out_only_what_nobody_needs(base: Path) -> None:
    config = load_config(base)
    names: list[str] = []
    for part in (
        language_model_part,
        speaker_encoder_part,
        codec_decoder_part,
        codec_encoder_part,
    ):
        with open_weights(part(base, config), like=LIKE) as weights:
            names += [name for name in weights if weights[name].dtype == torch.float32]
    assert len(names) == len(set(names))
    stored = load_file(base / "model.safetensors")
    stored |= load_file(base / "speech_tokenizer" / "model.safetensors")
    unused = stored.keys() - set(names)
    assert {name.split(".")[-1] for name in unused} == {
        "weight",
        "initialized",
        "cluster_usage",
        "embed_sum",
    }
    in_projections = {name for name in unused if name.endswith("proj.weight")}
    assert in_projections == {name for name in unused if name.endswith("weight")}
    assert len(in_projections) == 4
    spare_tables = {name for name in unused if name.endswith("embed_sum")}
    assert config.codec.encoder is not None
    assert len(spare_tables) == config.codec.encoder.num_quantizers - config.codec.num_quantizers
    assert all(".acoustic_" in name for name in spare_tables)


@pytest.mark.parametrize(
    ("size", "task"), [("tiny", CheckpointTask.BASE), ("tiny-0.6b", CheckpointTask.CUSTOM_VOICE)]
)
def test_shards_and_number_types_load(tmp_path: Path, size: Size, task: CheckpointTask) -> None:
    make_full_checkpoint(tmp_path, size=size, task=task, dtype="bfloat16", shards=3)
    config = load_config(tmp_path)
    for name, dtype in (("float32", torch.float32), ("bfloat16", torch.bfloat16)):
        model = load_language_model(LoadContext(tmp_path, "cpu", name, 1), 64)
        assert model.talker.head.weight.dtype == dtype
    with open_weights(codec_decoder_part(tmp_path, config), like=LIKE) as weights:
        assert decoder_of(weights, config.codec.decoder).network.tables.rows.isfinite().all()


@pytest.mark.parametrize("change", ["missing", "unknown", "misshapen"])
def test_files_that_do_not_fit_are_refused_by_name(base: Path, tmp_path: Path, change: str) -> None:
    shutil.copytree(base, tmp_path, dirs_exist_ok=True)
    tensors = load_file(tmp_path / "model.safetensors")
    name = "talker.model.layers.1.mlp.up_proj.weight"
    if change == "missing":
        del tensors[name]
    elif change == "unknown":
        name = "talker.model.layers.9.mlp.up_proj.weight"
        tensors[name] = torch.zeros(1)
    else:
        tensors[name] = tensors[name][:-1].clone()
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(ModelLoadError) as caught:
        load_language_model(LoadContext(tmp_path, "cpu", "float32", 1), 64)
    assert name in caught.value.message
    assert str(tmp_path) in caught.value.message
