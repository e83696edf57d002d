"""Files become one configuration; what cannot be served is refused by file and key."""

import json
from pathlib import Path
from typing import Any

import pytest

from antiphon.contracts.types import SpeechRequest
from antiphon.errors import ModelLoadError
from antiphon.families.qwen3_tts.config import CheckpointTask, Qwen3TTSConfig
from antiphon.families.qwen3_tts.config_reader import load_config
from antiphon.families.qwen3_tts.voices import capabilities_of
from antiphon.pipeline.speech.text_plan import normalizer_of
from tests.families.qwen3_tts.random_checkpoint import Size, write_all_but_weights

REMOVE = object()


def written(path: Path, size: Size, task: CheckpointTask) -> Qwen3TTSConfig:
    write_all_but_weights(path, size=size, task=task, dtype="bfloat16")
    return load_config(path)


def edit(file: Path, keys: str, value: Any) -> None:
    """Set or remove a dotted key of a JSON file."""
    content = json.loads(file.read_text(encoding="utf-8"))
    *path, last = keys.split(".")
    inner = content
    for key in path:
        inner = inner[key]
    if value is REMOVE:
        del inner[last]
    else:
        inner[last] = value
    file.write_text(json.dumps(content), encoding="utf-8")


def test_the_large_base_checkpoint(tmp_path: Path) -> None:
    config = written(tmp_path, "1.7b", CheckpointTask.BASE)
    assert (config.model_size, config.task) == ("1b7", CheckpointTask.BASE)
    assert config.talker.transformer.hidden_size == 2048
    assert config.talker.transformer.num_layers == 28
    assert config.talker.transformer.window is None
    assert config.talker.first_suppressed_id == 2048
    assert config.talker.tokens.eos == 2150
    assert config.predictor.has_projection
    assert config.predictor.embedding_size == 2048
    assert config.speaker_encoder is not None
    assert config.speaker_encoder.embedding_size == 2048
    assert config.tokens.im_start == 151644
    assert config.codec.samples_per_frame == 1920
    assert config.codec.decoder.transformer.window == 72
    assert config.codec.decoder.samples_per_frame == 1920
    assert config.codec.encoder
    assert config.codec.encoder.num_quantizers == 32
    assert config.generation.max_new_tokens == 8192
    assert config.generation.predictor_temperature == 0.9
    assert not config.speakers
    assert len(config.selectable_languages) == len(config.languages) == 10
    assert not config.takes_instructions


def test_the_small_custom_voice_checkpoint(tmp_path: Path) -> None:
    config = written(tmp_path, "0.6b", CheckpointTask.CUSTOM_VOICE)
    assert config.model_size == "0b6"
    assert config.talker.transformer.hidden_size == 1024
    assert not config.predictor.has_projection
    assert config.speaker_encoder is None
    assert config.speakers["ryan"] == 3061
    assert dict(config.dialects) == {"eric": "sichuan_dialect", "dylan": "beijing_dialect"}
    assert len(config.languages) == 12
    assert len(config.selectable_languages) == 10
    assert not config.takes_instructions


@pytest.mark.parametrize(
    ("size", "task", "expected"),
    [
        ("tiny", CheckpointTask.CUSTOM_VOICE, True),
        ("tiny-0.6b", CheckpointTask.CUSTOM_VOICE, False),
        ("tiny", CheckpointTask.VOICE_DESIGN, True),
        ("tiny", CheckpointTask.BASE, False),
    ],
)
def test_who_takes_instructions(
    tmp_path: Path, size: Size, task: CheckpointTask, expected: bool
) -> None:
    assert written(tmp_path, size, task).takes_instructions == expected


MAIN, CODEC, GENERATION = "config.json", "speech_tokenizer/config.json", "generation_config.json"


@pytest.mark.parametrize(
    ("file", "keys", "value"),
    [
        (MAIN, "talker_config", REMOVE),
        (MAIN, "tts_model_size", REMOVE),
        (MAIN, "tts_model_type", "singing"),
        (MAIN, "model_type", "qwen3"),
        (MAIN, "tokenizer_type", "qwen3_tts_tokenizer_25hz"),
        (MAIN, "talker_config.hidden_size", REMOVE),
        (MAIN, "talker_config.hidden_size", "64"),
        (MAIN, "talker_config.attention_bias", True),
        (MAIN, "talker_config.hidden_act", "gelu"),
        (MAIN, "talker_config.use_sliding_window", True),
        (MAIN, "talker_config.tie_word_embeddings", True),
        (MAIN, "talker_config.rope_scaling.rope_type", "yarn"),
        (MAIN, "talker_config.codec_eos_token_id", REMOVE),
        (MAIN, "talker_config.num_code_groups", 8),
        (MAIN, "talker_config.code_predictor_config.num_code_groups", 8),
        (MAIN, "talker_config.code_predictor_config.vocab_size", 1024),
        (MAIN, "talker_config.spk_is_dialect.eric", "martian_dialect"),
        (MAIN, "talker_config.spk_id.eric", "2875"),
        (CODEC, "model_type", "mimi"),
        (CODEC, "decode_upsample_rate", 1000),
        (CODEC, "encoder_valid_num_quantizers", 8),
        (CODEC, "decoder_config.hidden_act", "relu"),
        (CODEC, "decoder_config.upsample_rates", [8, "5"]),
        (CODEC, "encoder_config.use_causal_conv", False),
        (CODEC, "encoder_config.codebook_dim", 8),
        (CODEC, "encoder_config.upsampling_ratios", [8, 6]),
        (GENERATION, "temperature", "hot"),
        (GENERATION, "do_sample", 1),
    ],
)
def test_what_cannot_be_served_is_named(tmp_path: Path, file: str, keys: str, value: Any) -> None:
    written(tmp_path, "tiny", CheckpointTask.CUSTOM_VOICE)
    edit(tmp_path / file, keys, value)
    with pytest.raises(ModelLoadError) as caught:
        load_config(tmp_path)
    assert file in caught.value.message
    assert keys.split(".")[-1] in caught.value.message or "vector_quant" in caught.value.message


@pytest.mark.parametrize("file", [MAIN, CODEC, GENERATION])
def test_a_missing_file_is_named(tmp_path: Path, file: str) -> None:
    written(tmp_path, "tiny", CheckpointTask.VOICE_DESIGN)
    (tmp_path / file).unlink()
    with pytest.raises(ModelLoadError, match=file):
        load_config(tmp_path)


def test_a_speaker_encoder_must_fit_the_talker(tmp_path: Path) -> None:
    written(tmp_path, "tiny", CheckpointTask.BASE)
    edit(tmp_path / MAIN, "speaker_encoder_config.enc_dim", 192)
    with pytest.raises(ModelLoadError, match=r"speaker_encoder_config\.enc_dim"):
        load_config(tmp_path)


def test_only_voices_that_clone_need_a_codec_with_an_encoder(tmp_path: Path) -> None:
    for task in (CheckpointTask.CUSTOM_VOICE, CheckpointTask.BASE):
        written(tmp_path / task, "tiny", task)
        edit(tmp_path / task / CODEC, "encoder_config", None)
    assert load_config(tmp_path / CheckpointTask.CUSTOM_VOICE).codec.encoder is None
    with pytest.raises(ModelLoadError, match="encoder_config"):
        load_config(tmp_path / CheckpointTask.BASE)


def test_keys_without_effect_are_ignored(tmp_path: Path) -> None:
    before = written(tmp_path, "tiny", CheckpointTask.CUSTOM_VOICE)
    edit(tmp_path / MAIN, "talker_config.id2label", {"0": "LABEL_0"})
    edit(tmp_path / CODEC, "encoder_config._name_or_path", "somewhere")
    assert load_config(tmp_path) == before


def test_missing_generation_keys_have_the_official_fallbacks(tmp_path: Path) -> None:
    written(tmp_path, "tiny", CheckpointTask.CUSTOM_VOICE)
    (tmp_path / GENERATION).write_text("{}", encoding="utf-8")
    generation = load_config(tmp_path).generation
    assert generation.max_new_tokens == 2048
    assert generation.repetition_penalty == 1.05
    assert generation.do_sample


def test_the_rotary_base_is_found_where_newer_files_keep_it(tmp_path: Path) -> None:
    before = written(tmp_path, "tiny", CheckpointTask.CUSTOM_VOICE)
    moved = {"rope_theta": 1000000, "rope_type": "default", "mrope_section": [6, 5, 5]}
    edit(tmp_path / MAIN, "talker_config.rope_theta", REMOVE)
    edit(tmp_path / MAIN, "talker_config.rope_scaling", REMOVE)
    edit(tmp_path / MAIN, "talker_config.rope_parameters", moved)
    assert load_config(tmp_path) == before


def test_a_fine_tuned_speaker_is_served(tmp_path: Path) -> None:
    written(tmp_path, "tiny", CheckpointTask.BASE)
    edit(tmp_path / MAIN, "tts_model_type", "custom_voice")
    edit(tmp_path / MAIN, "talker_config.spk_id", {"Mine": 3000})
    edit(tmp_path / MAIN, "talker_config.spk_is_dialect", {"Mine": False})
    config = load_config(tmp_path)
    assert dict(config.speakers) == {"mine": 3000}
    assert not config.dialects
    assert config.speaker_encoder is None


@pytest.mark.parametrize("words_only", [False, True])
def test_text_is_written_out_for_a_model_that_knows_words_alone(
    tmp_path: Path, words_only: bool
) -> None:
    written(tmp_path, "0.6b", CheckpointTask.CUSTOM_VOICE)
    if words_only:
        edit(tmp_path / MAIN, "words_only", True)
    capabilities = capabilities_of(load_config(tmp_path))
    english, german, asked = (
        normalizer_of(request, capabilities) is not None
        for request in (
            SpeechRequest("It costs $42."),
            SpeechRequest("Das kostet 42.", language="german"),
            SpeechRequest("It costs $42.", normalize=True),
        )
    )
    assert (english, german, asked) == (words_only, False, True)
