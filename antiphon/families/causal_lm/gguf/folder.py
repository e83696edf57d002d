"""Configuration and tensor names of chat models in GGUF files."""

import json
import re
from pathlib import Path
from typing import Any, Final

import numpy as np

from antiphon.errors import ModelLoadError
from antiphon.families.causal_lm.gguf.tokenizer import end_ids, write_tokenizer
from antiphon.families.kit.formats.gguf_file import GGUFFile
from antiphon.families.kit.formats.gguf_folder import LAYER_NAMES, made_folder

_ARCHITECTURES: Final = {
    "llama": "LlamaForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
}
_NAMES: Final = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
}
_IN_LAYER: Final = re.compile(r"blk\.(\d+)\.(\w+)\.(weight|bias)")
_FREQUENCIES: Final = "rope_freqs.weight"
_LLAMA3: Final = {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
_LLAMA3_POSITIONS: Final = 8192
_MAX_HEAD_DIM: Final = 1024


def folder_of(gguf: GGUFFile) -> Path | None:
    """Return the directory made from a file; see `made_folder`.

    Returns:
        The directory; ``None``: the file holds no language model of the family.
    """
    if gguf.architecture not in _ARCHITECTURES:
        return None
    heads = gguf.integer("attention.head_count")
    rotated: dict[str, int] = {}
    if gguf.architecture == "llama":  # its converter puts the rotated pairs beside each other
        rotated = {"attn_q": heads, "attn_k": gguf.integer("attention.head_count_kv", heads)}

    def rename(name: str) -> tuple[str, int] | None:
        stem, _, end = name.rpartition(".")
        if stem in _NAMES:
            return f"{_NAMES[stem]}.{end}", 0
        found = _IN_LAYER.fullmatch(name)
        if found and found[2] in LAYER_NAMES:
            part = LAYER_NAMES[found[2]]
            return f"model.layers.{found[1]}.{part}.{found[3]}", rotated.get(found[2], 0)
        return None if name == _FREQUENCIES else (name, 0)

    def write(folder: Path) -> None:
        config = json.dumps(_config(gguf), indent=2)
        (folder / "config.json").write_text(config, encoding="utf-8")
        write_tokenizer(folder, gguf)

    return made_folder(gguf, write, rename, [gguf.path.with_name("tokenizer.json")])


def _config(gguf: GGUFFile) -> dict[str, Any]:
    heads, width = gguf.integer("attention.head_count"), gguf.integer("embedding_length")
    head_dim = gguf.integer("attention.key_length", width // max(1, heads))
    num_layers = gguf.integer("block_count")
    embedding = gguf.tensors.get("token_embd.weight")
    if embedding is None or len(embedding.shape) != 2:
        raise ModelLoadError(f"{gguf.path}: there is no matrix 'token_embd.weight'")
    if num_layers > len(gguf.tensors):
        raise gguf.error("block_count", f"is {num_layers}, more than there are tensors")
    for key, allowed in {
        "rope.dimension_count": head_dim,
        "attention.value_length": head_dim,
        "expert_count": 0,
        "attention.sliding_window": 0,
    }.items():
        if (value := gguf.value(key, allowed)) != allowed:
            raise gguf.error(key, f"is {value!r}; only {allowed} is supported")
    return {
        "architectures": [_ARCHITECTURES[gguf.architecture]],
        "hidden_size": width,
        "num_hidden_layers": num_layers,
        "intermediate_size": gguf.integer("feed_forward_length"),
        "num_attention_heads": heads,
        "num_key_value_heads": gguf.integer("attention.head_count_kv", heads),
        "head_dim": head_dim,
        "max_position_embeddings": gguf.integer("context_length"),
        "rms_norm_eps": gguf.number("attention.layer_norm_rms_epsilon"),
        "rope_theta": gguf.number("rope.freq_base", 10000.0),
        "rope_scaling": _scaling(gguf, head_dim),
        "vocab_size": embedding.shape[0],
        "tie_word_embeddings": "output.weight" not in gguf.tensors,
        "attention_bias": "blk.0.attn_q.bias" in gguf.tensors,
        "eos_token_id": end_ids(gguf.metadata),
    }


def _scaling(gguf: GGUFFile, head_dim: int) -> dict[str, Any] | None:
    if _FREQUENCIES in gguf.tensors:
        return _llama3(gguf, head_dim)
    kind = gguf.value("rope.scaling.type", "none")
    if kind == "none":
        return None
    return {
        "rope_type": kind,
        "factor": gguf.number("rope.scaling.factor"),
        "original_max_position_embeddings": gguf.integer("rope.scaling.original_context_length"),
    }


def _llama3(gguf: GGUFFile, head_dim: int) -> dict[str, Any]:
    """Return Llama 3's scaling, whose divisors of the frequencies are a tensor of the file."""
    header = gguf.tensors[_FREQUENCIES]
    error = ModelLoadError(
        f"{gguf.path}: '{_FREQUENCIES}' is not the scaling of Llama 3.1, the only one supported"
    )
    if header.kind or header.shape != (head_dim // 2,) or head_dim > _MAX_HEAD_DIM:
        raise error
    stored = np.fromfile(gguf.path, np.float32, header.num_values, offset=header.start)
    theta = gguf.number("rope.freq_base", 10000.0)
    wavelengths = 2 * np.pi * theta ** (np.arange(0, head_dim, 2) / head_dim)
    factor, high = float(stored.max(initial=1)), _LLAMA3["high_freq_factor"]
    share = ((_LLAMA3_POSITIONS / wavelengths - 1) / (high - 1)).clip(0, 1)
    divisors = 1 / ((1 - share) / factor + share)
    if stored.shape != divisors.shape or not np.allclose(stored, divisors, 1e-3):
        raise error
    positions = {"original_max_position_embeddings": _LLAMA3_POSITIONS}
    return {"rope_type": "llama3", "factor": factor, **_LLAMA3, **positions}
