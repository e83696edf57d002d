"""GGUF files of talkers, as qwentts.cpp's converter writes them."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

from tests.families.causal_lm.gguf_files import packed

_STEPS = (
    ("talker.code_predictor.small_to_mtp_projection", "code_pred.mtp_proj"),
    ("talker.code_predictor.model.layers.", "code_pred.blk."),
    ("talker.code_predictor.model.codec_embedding", "code_pred.codec_embd"),
    ("talker.code_predictor.model.norm", "code_pred.output_norm"),
    ("talker.code_predictor.lm_head", "code_pred.lm_head"),
    ("talker.model.layers.", "talker.blk."),
    ("talker.model.norm", "talker.output_norm"),
    ("talker.model.codec_embedding", "talker.codec_embd"),
    ("talker.model.text_embedding", "talker.text_embd"),
    ("talker.text_projection.linear_fc", "talker.text_proj.fc"),
    ("speaker_encoder.blocks.0.conv", "spk_enc.conv0"),
    ("speaker_encoder.blocks", "spk_enc.blk"),
    ("speaker_encoder", "spk_enc"),
    (".res2net_block.blocks.", ".res2net."),
    (".se_block.", ".se."),
    ("input_layernorm", "attn_norm"),
    ("post_attention_layernorm", "ffn_norm"),
    ("self_attn.o_proj", "attn_output"),
    ("self_attn.", "attn_"),
    ("mlp.", "ffn_"),
)
_PROJECTION = re.compile(r"((?:attn|ffn)_\w+?)_proj\b")
_INNER_CONV = re.compile(r"(tdnn\d?|mfa|res2net\.\d+)\.conv\.")


def gguf_name(name: str) -> str:
    """Return a tensor's name in such a file."""
    for ours, theirs in _STEPS:
        name = name.replace(ours, theirs)
    name = _PROJECTION.sub(r"\1", name)
    return _INNER_CONV.sub(r"\1.", name)


def write_talker(checkpoint: Path, file: Path, changes: dict[str, Any] | None = None) -> None:
    tensors = [
        (gguf_name(name), values.shape, 0, values.astype(np.float32).tobytes())
        for name, values in load_file(checkpoint / "model.safetensors").items()
    ]
    file.write_bytes(packed(_metadata(checkpoint) | (changes or {}), tensors))


def _metadata(checkpoint: Path) -> dict[str, Any]:
    config = json.loads((checkpoint / "config.json").read_text())
    talker = config["talker_config"]
    metadata: dict[str, Any] = {
        "tokenizer_type": config["tokenizer_type"],
        "model_size": config["tts_model_size"],
        "model_type": config["tts_model_type"],
        "num_code_groups": talker["num_code_groups"],
        "talker.text_vocab_size": talker["text_vocab_size"],
        "talker.text_hidden_size": talker["text_hidden_size"],
        **_sizes("talker", talker),
        **_sizes("code_pred", talker["code_predictor_config"]),
        "codec.language_names": [*talker["codec_language_id"]],
        "codec.language_ids": [*talker["codec_language_id"].values()],
        "codec.speaker_names": [*talker["spk_id"]],
        "codec.speaker_ids": [*talker["spk_id"].values()],
        "codec.speaker_dialects": [
            talker["spk_is_dialect"][name] or "" for name in talker["spk_id"]
        ],
        "codec.eos_id": talker["codec_eos_token_id"],
    }
    for name in ("pad", "bos", "think", "nothink", "think_bos", "think_eos"):
        metadata[f"codec.{name}_id"] = talker[f"codec_{name}_id"]
    for name in ("im_start", "im_end", "tts_pad", "tts_bos", "tts_eos"):
        metadata[f"text.{name}_id"] = config[f"{name}_token_id"]
    generation = json.loads((checkpoint / "generation_config.json").read_text())
    vocabulary = json.loads((checkpoint / "vocab.json").read_text())
    merges = (checkpoint / "merges.txt").read_text().splitlines()
    return {
        "general.architecture": "qwen3-tts",
        **{f"qwen3-tts.{key}": value for key, value in metadata.items()},
        **{
            f"generation.{key.replace('dosample', 'do_sample')}": value
            for key, value in generation.items()
        },
        "tokenizer.ggml.tokens": [*vocabulary, "<|im_start|>"],
        "tokenizer.ggml.token_type": [1] * len(vocabulary) + [4],
        "tokenizer.ggml.merges": [each for each in merges if not each.startswith("#")],
    }


def _sizes(part: str, config: dict[str, Any]) -> dict[str, Any]:
    return {
        f"{part}.embedding_length": config["hidden_size"],
        f"{part}.feed_forward_length": config["intermediate_size"],
        f"{part}.block_count": config["num_hidden_layers"],
        f"{part}.attention.head_count": config["num_attention_heads"],
        f"{part}.attention.head_count_kv": config["num_key_value_heads"],
        f"{part}.attention.key_length": config["head_dim"],
        f"{part}.vocab_size": config["vocab_size"],
        f"{part}.context_length": config["max_position_embeddings"],
        f"{part}.rope.freq_base": float(config["rope_theta"]),
        f"{part}.attention.layer_norm_rms_epsilon": float(config["rms_norm_eps"]),
    }
