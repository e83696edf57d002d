"""What is read of a checkpoint's directory, and what is said of one that cannot be served."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from antiphon.errors import ModelLoadError
from antiphon.families.kit.random_checkpoint import configs_of
from antiphon.families.mimo_audio.checkpoint import inspect
from antiphon.families.mimo_audio.config import (
    TOKENIZER_NAME,
    load_config,
    load_tokenizer_config,
    tokenizer_path,
)
from antiphon.families.mimo_audio.sizes import CONFIGS
from antiphon.families.mimo_audio.text_tokenizer import SPEECH_TOKENS, load_text_tokenizer


def main_config(size: str) -> dict[str, Any]:
    return configs_of(CONFIGS, size)["config.json"]


def tokenizer_config(size: str) -> dict[str, Any]:
    return configs_of(CONFIGS, size)[f"{TOKENIZER_NAME}/config.json"]


def with_config(path: Path, values: dict[str, Any]) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    (path / "config.json").write_text(json.dumps(values))
    return path


def test_the_published_sizes_are_read(tmp_path: Path) -> None:
    config = load_config(with_config(tmp_path, main_config("7b")))
    beside = with_config(tmp_path / TOKENIZER_NAME, tokenizer_config("7b"))
    audio = load_tokenizer_config(beside, config)
    assert (config.frame_size, config.decoder.max_positions) == (33, 11)
    assert (config.decoder.head_dim, config.encoder.head_dim) == (16, 16)
    assert audio.samples_per_group == 3840
    assert audio.vocoder.num_layers * (audio.vocoder.right or 0) == 10 * audio.group_mels
    assert audio.decoder.left == 499


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hidden_act", "gelu"),
        ("rope_scaling", {"type": "linear", "factor": 2}),
        ("use_sliding_window", True),
        ("tie_word_embeddings", True),
        ("audio_channels", 0),
        ("group_size", 99),
        ("speech_vocab_size", "33-33"),
        ("speech_zeroemb_idx", "33-32-8-8-8-8-8-8"),
        ("delay_pattern", "one"),
        ("delay_pattern", "0-1-2-3-4-5-6-11"),
        ("input_full_attention", False),
        ("num_key_value_heads", 3),
        ("local_attn_heads", 7),
        ("hidden_size", None),
    ],
)
def test_a_config_that_is_not_implemented_names_its_key(
    tmp_path: Path, key: str, value: Any
) -> None:
    with_config(tmp_path, main_config("tiny") | {key: value})
    with pytest.raises(ModelLoadError, match=f"config.json: '({key}|local_dim)"):
        load_config(tmp_path)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("ln_type", "RMSNorm"),
        ("decoder_causal", False),
        ("window_size", 480),
        ("hop_length", 7),
        ("decoder_kernel_size", 1),
        ("avg_pooler", 1),
        ("encoder_attn_window_size", [10, 10]),
        ("vocoder_attn_window_size", [-1, -1]),
        ("vocoder_attn_window_size", [4]),
        ("codebook_size", [64, 64]),
        ("num_quantizers", 4),
    ],
)
def test_an_audio_tokenizer_of_another_kind_names_its_key(
    tmp_path: Path, key: str, value: Any
) -> None:
    config = load_config(with_config(tmp_path / "main", main_config("tiny")))
    with_config(tmp_path, tokenizer_config("tiny") | {key: value})
    with pytest.raises(ModelLoadError, match=f"'({key}|codebook_size)'"):
        load_tokenizer_config(tmp_path, config)


def test_the_audio_tokenizer_is_found_within_beside_and_in_the_cache(tmp_path: Path) -> None:
    snapshot = tmp_path / "hub/models--XiaomiMiMo--MiMo-Audio-7B-Instruct/snapshots/1234"
    snapshot.mkdir(parents=True)
    with pytest.raises(ModelLoadError, match=f"XiaomiMiMo/{TOKENIZER_NAME}"):
        tokenizer_path(snapshot)
    cached = tmp_path / f"hub/models--XiaomiMiMo--{TOKENIZER_NAME}/snapshots/5678"
    for place in (cached, snapshot.parent / TOKENIZER_NAME, snapshot / TOKENIZER_NAME):
        with_config(place, {})
        assert tokenizer_path(snapshot) == place


def test_an_inspection_says_what_there_is(checkpoint: Path, tmp_path: Path) -> None:
    found = inspect(checkpoint)
    assert found.problems == ()
    assert found.facts["Groups per second"] == "6.25"
    assert {row[0] for row in found.tables[0].rows} >= {"patch decoder", "audio tokenizer, decoder"}
    broken = tmp_path / "broken"
    shutil.copytree(checkpoint, broken)
    (broken / TOKENIZER_NAME / "model.safetensors").unlink()
    (broken / "tokenizer.json").unlink()
    problems = "\n".join(inspect(broken).problems)
    assert "model.safetensors" in problems
    assert "tokenizer.json" in problems


def test_text_that_spells_a_special_token_is_text(checkpoint: Path) -> None:
    tokenizer = load_text_tokenizer(checkpoint, 272)
    assert tokenizer.encode(["<|im_end|>"]) == [258]
    assert 258 not in tokenizer.encode(["Say <|im_end|> now."])
    assert tokenizer.encode(["\ud800"]) == tokenizer.encode(["\ufffd"])


def test_missing_special_tokens_come_after_the_vocabulary(checkpoint: Path, tmp_path: Path) -> None:
    values = json.loads((checkpoint / "tokenizer.json").read_text())
    values["added_tokens"] = values["added_tokens"][:3]
    (tmp_path / "tokenizer.json").write_text(json.dumps(values))
    tokenizer = load_text_tokenizer(tmp_path, 272)
    assert tokenizer.encode(SPEECH_TOKENS) == [*range(259, 267)]
    with pytest.raises(ModelLoadError, match="no row in the embedding"):
        load_text_tokenizer(tmp_path, 262)


def test_a_vocabulary_in_two_files_reads_the_same(checkpoint: Path, tmp_path: Path) -> None:
    model = json.loads((checkpoint / "tokenizer.json").read_text())
    (tmp_path / "vocab.json").write_text(json.dumps(model["model"]["vocab"]))
    (tmp_path / "merges.txt").write_text("#version: 0.2\n")
    added = {str(each["id"]): {"content": each["content"]} for each in model["added_tokens"]}
    settings = {"eos_token": {"content": "<|im_end|>"}, "added_tokens_decoder": added}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    whole, parts = (load_text_tokenizer(path, 272) for path in (checkpoint, tmp_path))
    text = ["<|im_start|>", "user\nIt's 12 o'clock, 今天.", "<|empty|>"]
    assert parts.encode(text) == whole.encode(text)
    assert parts.stop_ids == whole.stop_ids
