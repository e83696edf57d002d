"""Talkers in GGUF files have the configuration, vocabulary and weights of their checkpoints."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from antiphon.errors import ModelLoadError
from antiphon.families.qwen3_tts.checkpoint import inspect, main_layout
from antiphon.families.qwen3_tts.config import CheckpointTask
from antiphon.families.qwen3_tts.config_reader import load_config
from antiphon.families.qwen3_tts.gguf.folder import renamed
from antiphon.families.qwen3_tts.tokenizer import load_tokenizer
from antiphon.families.registry import resolve
from antiphon.nn.quantized.stored_rows import stored_rows
from antiphon.nn.safetensors_index import WeightsPart
from antiphon.nn.weights import open_weights
from tests.families.qwen3_tts.gguf_talker import gguf_name, write_talker


@pytest.fixture
def source(checkpoint: Callable[..., Path]) -> Path:
    return checkpoint("tiny", CheckpointTask.CUSTOM_VOICE)


@pytest.fixture
def file(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the file is to be, beside a codec; the cache of huggingface_hub is empty."""
    cache = "huggingface_hub.utils._cache_assets.HF_ASSETS_CACHE"
    monkeypatch.setattr(cache, tmp_path / "cache")
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "Qwen3-TTS-Tokenizer-12Hz").symlink_to(source / "speech_tokenizer")
    return folder / "talker.gguf"


def weights_of(path: Path) -> dict[str, Tensor]:
    part = WeightsPart(directory=path, layout=main_layout(load_config(path)))
    with open_weights(part, like=torch.empty(0)) as weights:
        return {name: weights[name] for name in weights}


def test_a_talker_is_that_of_the_checkpoint(source: Path, file: Path) -> None:
    write_talker(source, file)
    family, path = resolve(str(file))
    assert family.name == "qwen3_tts"
    assert path is not None
    assert load_config(path) == load_config(source)
    found, wanted = weights_of(path), weights_of(source)
    assert found.keys() == wanted.keys()
    assert all(torch.equal(each, wanted[name]) for name, each in found.items())
    text = "Hello, <|im_start|> 12 \N{SLIGHTLY SMILING FACE}"
    assert load_tokenizer(path)(text) == load_tokenizer(source)(text)
    assert inspect(path).problems == ()


def test_rows_of_the_text_embedding_are_loaded_when_they_are_read(source: Path, file: Path) -> None:
    name, ids = "talker.model.text_embedding.weight", torch.tensor([[7, 3], [0, 7]])
    write_talker(source, file)
    _, path = resolve(str(file))
    for folder in (path, source):
        assert folder is not None
        layout = main_layout(load_config(folder))
        part = WeightsPart(directory=folder, layout=layout, prefix=name)
        with open_weights(part, like=torch.empty(0)) as weights:
            rows = stored_rows(weights, name)
            assert len(rows) == layout[name][0]
            assert torch.equal(rows[ids], weights[name][ids])


def test_names_of_the_speaker_encoder_are_those_of_base_checkpoints(
    checkpoint: Callable[..., Path],
) -> None:
    names = main_layout(load_config(checkpoint("tiny", CheckpointTask.BASE)))
    assert any(name.startswith("speaker_encoder.") for name in names)
    assert [renamed(gguf_name(name)) for name in names] == [*names]


def test_a_codec_has_to_be_beside_the_file(source: Path, file: Path) -> None:
    write_talker(source, file)
    (file.parent / "Qwen3-TTS-Tokenizer-12Hz").unlink()
    with pytest.raises(ModelLoadError, match="Put the folder 'speech_tokenizer' of the original"):
        resolve(str(file))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"general.architecture": "qwen3-tts-tokenizer"},
            r"GGUF \('qwen3-tts-tokenizer'\) weights",
        ),
        ({"qwen3-tts.num_code_groups": None}, "in another layout than qwentts.cpp's"),
        ({"qwen3-tts.talker.vocab_size": None}, r"talker\.vocab_size' must be a whole number"),
        ({"qwen3-tts.code_pred.block_count": 10**9}, "is more than there are tensors"),
        ({"qwen3-tts.codec.speaker_ids": [1]}, r"must be as many values as 'codec\.speaker_names'"),
        ({"tokenizer.ggml.merges": None}, "lacks one of tokens, token_type, merges"),
        ({"qwen3-tts.talker.rope.freq_base": -1.0}, "must be a number above 0"),
    ],
)
def test_incomplete_files_are_refused(
    changes: dict[str, object], message: str, source: Path, file: Path
) -> None:
    write_talker(source, file, changes)
    with pytest.raises(ModelLoadError, match=message):
        resolve(str(file))
