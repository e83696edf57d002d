"""Configuration, vocabulary and tensor names of Qwen3-TTS talkers in GGUF files.

The layout is that of qwentts.cpp's converter. The codec is read from its published safetensors,
since its GGUF file holds codebooks that cannot be restored.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from antiphon.contracts.config_file import quantized_error
from antiphon.errors import ModelLoadError
from antiphon.families.kit.formats.gguf_file import GGUFFile, shortest
from antiphon.families.kit.formats.gguf_folder import LAYER_NAMES, made_folder
from antiphon.families.qwen3_tts.config import CODEC_DIRECTORY

_ARCHITECTURE: Final = "qwen3-tts"
_CODEC_NAMES: Final = (CODEC_DIRECTORY, "Qwen3-TTS-Tokenizer-12Hz")
_NORMAL: Final = 1  # type of a token that is no special one
_VOCABULARY: Final = ("tokens", "token_type", "merges")
_SIZES: Final = {
    "hidden_size": "embedding_length",
    "intermediate_size": "feed_forward_length",
    "num_hidden_layers": "block_count",
    "num_attention_heads": "attention.head_count",
    "num_key_value_heads": "attention.head_count_kv",
    "head_dim": "attention.key_length",
    "vocab_size": "vocab_size",
    "max_position_embeddings": "context_length",
}
_CODEC_IDS: Final = {
    "codec_eos_token_id": "codec.eos_id",
    **{
        f"codec_{name}_id": f"codec.{name}_id"
        for name in ("pad", "bos", "think", "nothink", "think_bos", "think_eos")
    },
}
_TEXT_IDS: Final = ("im_start", "im_end", "tts_pad", "tts_bos", "tts_eos")
_PREDICTOR: Final = "talker.code_predictor"
_NAMES: Final = {
    "talker.codec_embd": "talker.model.codec_embedding",
    "talker.text_embd": "talker.model.text_embedding",
    "talker.output_norm": "talker.model.norm",
    "talker.codec_head": "talker.codec_head",
    "talker.text_proj.fc1": "talker.text_projection.linear_fc1",
    "talker.text_proj.fc2": "talker.text_projection.linear_fc2",
    "code_pred.output_norm": f"{_PREDICTOR}.model.norm",
    "code_pred.mtp_proj": f"{_PREDICTOR}.small_to_mtp_projection",
    "spk_enc.conv0": "speaker_encoder.blocks.0.conv",
    "spk_enc.asp.conv": "speaker_encoder.asp.conv",
    "spk_enc.asp.tdnn": "speaker_encoder.asp.tdnn.conv",
    "spk_enc.mfa": "speaker_encoder.mfa.conv",
    "spk_enc.fc": "speaker_encoder.fc",
}
_PATTERNS: Final = (
    (r"code_pred\.codec_embd\.(\d+)", rf"{_PREDICTOR}.model.codec_embedding.\1"),
    (r"code_pred\.lm_head\.(\d+)", rf"{_PREDICTOR}.lm_head.\1"),
    (
        r"spk_enc\.blk\.(\d+)\.res2net\.(\d+)",
        r"speaker_encoder.blocks.\1.res2net_block.blocks.\2.conv",
    ),
    (r"spk_enc\.blk\.(\d+)\.se\.(conv[12])", r"speaker_encoder.blocks.\1.se_block.\2"),
    (r"spk_enc\.blk\.(\d+)\.(tdnn[12])", r"speaker_encoder.blocks.\1.\2.conv"),
)
_LAYERS: Final = {"talker": "talker.model.layers", "code_pred": f"{_PREDICTOR}.model.layers"}
_IN_LAYER: Final = re.compile(r"(talker|code_pred)\.blk\.(\d+)\.(\w+)")


def folder_of(gguf: GGUFFile) -> Path | None:
    """Return the directory made from a file; see `made_folder`; raises ModelLoadError.

    Returns:
        The directory; ``None``: the file holds no talker.
    """
    if gguf.architecture != _ARCHITECTURE:
        return None
    if gguf.value("num_code_groups") is None:
        raise quantized_error(gguf.path, "GGUF ('qwen3-tts' in another layout than qwentts.cpp's)")
    codecs = [gguf.path.resolve().with_name(name) for name in _CODEC_NAMES]
    codec = next((each for each in codecs if each.is_dir()), None)
    if codec is None:
        raise ModelLoadError(
            f"{gguf.path}: the codec is missing. Put the folder '{CODEC_DIRECTORY}' of the original"
            f" checkpoint, or {_CODEC_NAMES[1]}, beside the file; GGUF files of it are not read."
        )

    def write(folder: Path) -> None:
        _write_json(folder / "config.json", _config(gguf))
        _write_json(folder / "generation_config.json", _generation(gguf.metadata))
        _write_vocabulary(folder, gguf)
        (folder / CODEC_DIRECTORY).symlink_to(codec, target_is_directory=True)

    return made_folder(gguf, write, lambda name: (renamed(name), 0), [codec])


def renamed(name: str) -> str:
    """Return the name of a tensor in the published checkpoints; unknown names as they are."""
    stem, _, end = name.rpartition(".")
    if stem in _NAMES:
        return f"{_NAMES[stem]}.{end}"
    if (found := _IN_LAYER.fullmatch(stem)) and found[3] in LAYER_NAMES:
        return f"{_LAYERS[found[1]]}.{found[2]}.{LAYER_NAMES[found[3]]}.{end}"
    for pattern, replacement in _PATTERNS:
        if re.fullmatch(pattern, stem):
            return f"{re.sub(pattern, replacement, stem)}.{end}"
    return name


def _config(gguf: GGUFFile) -> dict[str, Any]:
    num_groups = gguf.integer("num_code_groups")
    talker = {
        **_transformer(gguf, "talker"),
        "num_code_groups": num_groups,
        "text_vocab_size": gguf.integer("talker.text_vocab_size"),
        "text_hidden_size": gguf.integer("talker.text_hidden_size"),
        "code_predictor_config": {
            **_transformer(gguf, "code_pred"),
            "num_code_groups": num_groups,
        },
        **{name: gguf.integer(key) for name, key in _CODEC_IDS.items()},
        "codec_language_id": _named(gguf, "language_names", "language_ids"),
        "spk_id": _named(gguf, "speaker_names", "speaker_ids"),
        "spk_is_dialect": {
            name: dialect or False
            for name, dialect in _named(gguf, "speaker_names", "speaker_dialects").items()
        },
    }
    config = {
        "architectures": ["Qwen3TTSForConditionalGeneration"],
        "model_type": "qwen3_tts",
        "tokenizer_type": gguf.value("tokenizer_type"),
        "tts_model_size": gguf.value("model_size"),
        "tts_model_type": gguf.value("model_type"),
        "talker_config": talker,
        **{f"{name}_token_id": gguf.integer(f"text.{name}_id") for name in _TEXT_IDS},
    }
    if (size := gguf.value("spk_enc.embedding_length")) is not None:
        rate_hz = gguf.integer("spk_enc.sample_rate")
        config["speaker_encoder_config"] = {"enc_dim": size, "sample_rate": rate_hz}
    return config


def _transformer(gguf: GGUFFile, part: str) -> dict[str, Any]:
    sizes: dict[str, Any] = {name: gguf.integer(f"{part}.{key}") for name, key in _SIZES.items()}
    if sizes["num_hidden_layers"] > len(gguf.tensors):
        raise gguf.error(f"{part}.block_count", "is more than there are tensors")
    return {
        **sizes,
        "rope_theta": gguf.number(f"{part}.rope.freq_base"),
        "rms_norm_eps": gguf.number(f"{part}.attention.layer_norm_rms_epsilon"),
    }


def _named(gguf: GGUFFile, names: str, values: str) -> dict[str, Any]:
    """Return a table that the metadata has in two lists."""
    pair = [gguf.value(f"codec.{key}", []) for key in (names, values)]
    if not all(isinstance(each, list) for each in pair) or len(pair[0]) != len(pair[1]):
        raise gguf.error(f"codec.{values}", f"must be as many values as 'codec.{names}'")
    return dict(zip(*pair, strict=True))


def _generation(metadata: Mapping[str, Any]) -> dict[str, Any]:
    prefix = "generation."
    return {
        key.removeprefix(prefix).replace("subtalker_do_sample", "subtalker_dosample"): (
            shortest(value) if isinstance(value, float) else value
        )
        for key, value in metadata.items()
        if key.startswith(prefix)
    }


def _write_vocabulary(folder: Path, gguf: GGUFFile) -> None:
    """Write vocab.json and merges.txt; ids of special tokens are in the configuration."""
    lists = [gguf.metadata.get(f"tokenizer.ggml.{key}") for key in _VOCABULARY]
    found = [each for each in lists if isinstance(each, list)]
    if len(found) != len(_VOCABULARY):
        raise ModelLoadError(f"{gguf.path}: 'tokenizer.ggml' lacks one of {', '.join(_VOCABULARY)}")
    tokens, kinds, merges = found
    vocabulary = {
        token: number
        for number, (token, kind) in enumerate(zip(tokens, kinds, strict=False))
        if kind == _NORMAL
    }
    _write_json(folder / "vocab.json", vocabulary)
    text = "\n".join(("#version: 0.2", *map(str, merges)))
    (folder / "merges.txt").write_text(text, encoding="utf-8")


def _write_json(file: Path, values: Mapping[str, Any]) -> None:
    file.write_text(json.dumps(values, indent=2, ensure_ascii=False), encoding="utf-8")
