"""Made-up checkpoints have the official layout, and their bytes follow from the seed."""

import gzip
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest
import torch
from safetensors import safe_open
from safetensors.numpy import load_file

from antiphon.errors import ModelLoadError
from antiphon.families.qwen3_tts.checkpoint import codec_layout, main_layout
from antiphon.families.qwen3_tts.config import CheckpointTask
from antiphon.families.qwen3_tts.config_reader import load_config
from antiphon.families.qwen3_tts.talker import Talker, load_predictor
from antiphon.nn.cuda import inner_codes
from tests.families.qwen3_tts.random_checkpoint import (
    Size,
    make_full_checkpoint,
    write_all_but_weights,
)

OFFICIAL_LAYOUTS = Path(__file__).parent / "fixtures" / "layouts.json.gz"


def digest(path: Path) -> dict[str, str]:
    files = (file for file in path.rglob("*") if file.is_file())
    return {
        file.relative_to(path).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in files
    }


def shapes(file: Path) -> dict[str, tuple[int, ...]]:
    with safe_open(file, "np") as stored:
        names = list(stored.keys())
        return {name: tuple(stored.get_slice(name).get_shape()) for name in names}


@pytest.mark.parametrize(("size", "task"), [("0.6b", "custom_voice"), ("1.7b", "base")])
def test_full_sizes_have_the_official_tensors(tmp_path: Path, size: Size, task: str) -> None:
    official = json.loads(gzip.decompress(OFFICIAL_LAYOUTS.read_bytes()))[size]
    config = write_all_but_weights(tmp_path, size=size, task=task, dtype="bfloat16")
    for part, layout in (("main", main_layout(config)), ("codec", codec_layout(config))):
        assert layout == {name: tuple(shape) for name, shape in official[part].items()}


@pytest.mark.parametrize("size", ["tiny", "tiny-0.6b"])
@pytest.mark.parametrize("task", CheckpointTask)
def test_files_hold_the_layout(
    checkpoint: Callable[[Size, CheckpointTask], Path], size: Size, task: CheckpointTask
) -> None:
    path = checkpoint(size, task)
    config = load_config(path)
    assert shapes(path / "model.safetensors") == main_layout(config)
    assert shapes(path / "speech_tokenizer/model.safetensors") == codec_layout(config)


def test_a_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        make_full_checkpoint(tmp_path / name, size="tiny", task="base", seed=seed)
    first, again, other = (digest(tmp_path / name) for name in "abc")
    assert first == again
    weights = {file for file in first if file.endswith(".safetensors")}
    assert {file for file in first if first[file] != other[file]} == weights


def test_values_stay_as_the_recorded_speech_needs_them(tmp_path: Path) -> None:
    make_full_checkpoint(tmp_path, size="tiny", task="base")
    for folder, wanted in ((".", "b4bc6a4d1e3a28ac"), ("speech_tokenizer", "cea70cfe4db28085")):
        found = hashlib.sha256()
        for name, values in sorted(load_file(tmp_path / folder / "model.safetensors").items()):
            found.update(name.encode() + values.tobytes())
        assert found.hexdigest().startswith(wanted)


def test_sizes_share_the_codec(checkpoint: Callable[[Size, CheckpointTask], Path]) -> None:
    paths = [checkpoint(size, CheckpointTask.CUSTOM_VOICE) for size in ("tiny", "tiny-0.6b")]
    codecs = [digest(path / "speech_tokenizer") for path in paths]
    assert codecs[0] == codecs[1]


@pytest.mark.parametrize("argument", ["size", "task", "vocabulary", "dtype"])
def test_unknown_arguments_are_named(tmp_path: Path, argument: str) -> None:
    arguments: dict[str, str] = {"size": "tiny", "task": "base", argument: "nonsense"}
    with pytest.raises(ModelLoadError, match=f"{argument} 'nonsense'"):
        make_full_checkpoint(tmp_path, **arguments)


def test_every_size_is_readable(tmp_path: Path) -> None:
    for size in get_args(Size):
        for task in CheckpointTask:
            write_all_but_weights(tmp_path / size, size=size, task=task, dtype="float32")
            assert load_config(tmp_path / size).task is task


@pytest.mark.parametrize("size", ["1.7b", "0.6b"])
def test_published_sizes_are_served(
    size: Size, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = write_all_but_weights(tmp_path, size=size, task="custom_voice", dtype="bfloat16")
    weights = {
        name: torch.zeros(shape, dtype=torch.bfloat16, device="meta")
        for name, shape in main_layout(config).items()
    }
    talker = Talker.of(weights, config.talker, 64)
    predictor = load_predictor(weights, config.predictor, talker.frame_table)
    monkeypatch.setattr(inner_codes, "runs_on", lambda *_: True)
    assert inner_codes.is_served(predictor.transformer, predictor.heads, predictor.tables)
