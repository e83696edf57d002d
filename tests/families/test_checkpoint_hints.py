"""Directories that are almost checkpoints are refused with what to load instead."""

from pathlib import Path

import pytest

from antiphon.errors import ModelLoadError
from antiphon.families.registry import resolve

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 3833402552\n"


def test_a_folder_of_the_hub_s_cache_names_its_snapshot(tmp_path: Path) -> None:
    folder = tmp_path / "models--Qwen--Qwen3-TTS-12Hz-1.7B-Base"
    snapshot = folder / "snapshots" / "fd4b254389122332181a7c3db7f27e918eec64e3"
    snapshot.mkdir(parents=True)
    with pytest.raises(ModelLoadError, match=r"Use 'Qwen/Qwen3-TTS-12Hz-1\.7B-Base' or") as caught:
        resolve(str(folder))
    assert str(snapshot) in str(caught.value)


@pytest.mark.parametrize("name", ["model.safetensors", "speech_tokenizer/model.safetensors"])
def test_a_clone_without_its_large_files_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "config.json").write_text('{"architectures": ["Qwen3TTSForConditionalGeneration"]}')
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(POINTER)
    with pytest.raises(ModelLoadError, match=r"Git LFS pointer.*git lfs pull") as caught:
        resolve(str(tmp_path))
    assert name in str(caught.value)


@pytest.mark.parametrize("index", ["config.json", "model_index.json"])
def test_a_part_of_a_checkpoint_names_the_whole(tmp_path: Path, index: str) -> None:
    part = tmp_path / "speech_tokenizer"
    part.mkdir()
    (part / "config.json").write_text('{"architectures": ["Qwen3TTSTokenizerV2Model"]}')
    with pytest.raises(ModelLoadError, match="no family serves") as alone:
        resolve(str(part))
    assert "Did you mean" not in str(alone.value)
    (tmp_path / index).write_text("{}")
    with pytest.raises(ModelLoadError) as caught:
        resolve(str(part))
    assert f"Did you mean '{tmp_path}'?" in str(caught.value)
