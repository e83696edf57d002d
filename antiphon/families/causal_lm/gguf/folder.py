"""Directories of checkpoints made from GGUF files: JSON files and an index, no copy of a tensor."""

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from antiphon.errors import ModelLoadError
from antiphon.families.causal_lm.gguf.tokenizer import end_ids, write_tokenizer
from antiphon.families.kit.formats.gguf_file import GGUFFile
from antiphon.nn.quantized.gguf_tensors import GGUFHeader, gguf_header, write_index

_VERSION: Final = "1"  # of the files that are written
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
_LAYER: Final = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_IN_LAYER: Final = re.compile(r"blk\.(\d+)\.(\w+)\.(weight|bias)")
_FREQUENCIES: Final = "rope_freqs.weight"
_LLAMA3: Final = {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
_LLAMA3_POSITIONS: Final = 8192


def folder_of(gguf: GGUFFile) -> Path | None:
    """Return the directory made from a file, new or kept from before.

    It is in the cache of ``huggingface_hub``, by the file's path, size and time.

    Returns:
        The directory; ``None``: the file holds no language model of the family.

    Raises:
        ModelLoadError: the file is incomplete, or requires something that is not implemented.
    """
    if gguf.architecture not in _ARCHITECTURES:
        return None
    from huggingface_hub import cached_assets_path

    path = gguf.path.resolve()
    facts = [_VERSION, str(path), str(gguf.num_bytes), str(path.stat().st_mtime_ns)]
    beside = path.with_name("tokenizer.json")
    facts += [str(beside.stat().st_mtime_ns)] if beside.is_file() else []
    digest = hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]
    try:
        parent = cached_assets_path("antiphon", "gguf")
        folder = parent / f"{path.stem}-{digest}"
        if not folder.is_dir():
            made = Path(tempfile.mkdtemp(dir=parent))
            try:
                _write(made, gguf)
                made.chmod(0o755)
                os.replace(made, folder)
            finally:
                shutil.rmtree(made, ignore_errors=True)
    except OSError as error:
        message = f"{path}: its configuration cannot be kept in the cache of huggingface_hub"
        raise ModelLoadError(f"{message}: {error}") from error
    return folder


def _write(folder: Path, gguf: GGUFFile) -> None:
    config = json.dumps(_config(gguf), indent=2)
    (folder / "config.json").write_text(config, encoding="utf-8")
    write_tokenizer(folder, gguf)
    write_index(folder, gguf.path.resolve(), _headers(gguf))


def _config(gguf: GGUFFile) -> dict[str, Any]:
    """Return the contents of config.json."""
    if gguf.metadata.get("split.count", 1) > 1:
        raise ModelLoadError(
            f"{gguf.path}: is one of {gguf.metadata['split.count']} parts ('split.count'); join"
            " them with llama-gguf-split --merge"
        )
    own = _own(gguf)
    heads, width = _needed(gguf, "attention.head_count"), _needed(gguf, "embedding_length")
    head_dim = own.get("attention.key_length", width // max(1, heads))
    embedding = gguf.tensors.get("token_embd.weight")
    if embedding is None:
        raise ModelLoadError(f"{gguf.path}: the tensor 'token_embd.weight' is missing")
    for key, allowed in {
        "rope.dimension_count": head_dim,
        "attention.value_length": head_dim,
        "expert_count": 0,
    }.items():
        if own.get(key, allowed) != allowed:
            raise _error(gguf, key, f"is {own[key]}; only {allowed} is supported")
    if own.get("attention.sliding_window") is not None:
        raise _error(gguf, "attention.sliding_window", "is set; sliding windows are not supported")
    return {
        "architectures": [_ARCHITECTURES[gguf.architecture]],
        "hidden_size": width,
        "num_hidden_layers": _needed(gguf, "block_count"),
        "intermediate_size": _needed(gguf, "feed_forward_length"),
        "num_attention_heads": heads,
        "num_key_value_heads": own.get("attention.head_count_kv", heads),
        "head_dim": head_dim,
        "max_position_embeddings": _needed(gguf, "context_length"),
        "rms_norm_eps": _needed(gguf, "attention.layer_norm_rms_epsilon"),
        "rope_theta": own.get("rope.freq_base", 10000.0),
        "rope_scaling": _scaling(gguf, own, head_dim),
        "vocab_size": embedding.shape[0],
        "tie_word_embeddings": "output.weight" not in gguf.tensors,
        "attention_bias": "blk.0.attn_q.bias" in gguf.tensors,
        "eos_token_id": end_ids(gguf.metadata),
    }


def _scaling(gguf: GGUFFile, own: Mapping[str, Any], head_dim: int) -> dict[str, Any] | None:
    """Return the scaling of the rotary embedding."""
    if _FREQUENCIES in gguf.tensors:
        return _llama3(gguf, own.get("rope.freq_base", 10000.0), head_dim)
    kind = own.get("rope.scaling.type", "none")
    if kind == "none":
        return None
    return {
        "rope_type": kind,
        "factor": own.get("rope.scaling.factor"),
        "original_max_position_embeddings": own.get("rope.scaling.original_context_length"),
    }


def _llama3(gguf: GGUFFile, theta: float, head_dim: int) -> dict[str, Any]:
    """Return Llama 3's scaling, whose divisors of the frequencies are a tensor of the file."""
    header = gguf.tensors[_FREQUENCIES]
    stored = np.fromfile(gguf.path, np.float32, header.num_values, offset=header.start)
    wavelengths = 2 * np.pi * theta ** (np.arange(0, head_dim, 2) / head_dim)
    factor, high = float(stored.max(initial=1)), _LLAMA3["high_freq_factor"]
    share = (_LLAMA3_POSITIONS / wavelengths - 1) / (high - 1)
    divisors = 1 / ((1 - share.clip(0, 1)) / factor + share.clip(0, 1))
    if header.kind or stored.shape != divisors.shape or not np.allclose(stored, divisors, 1e-3):
        raise ModelLoadError(
            f"{gguf.path}: '{_FREQUENCIES}' is not the scaling of Llama 3.1, the only one supported"
        )
    positions = {"original_max_position_embeddings": _LLAMA3_POSITIONS}
    return {"rope_type": "llama3", "factor": factor, **_LLAMA3, **positions}


def _headers(gguf: GGUFFile) -> dict[str, GGUFHeader]:
    """Return the tensors by the names of config.json's architecture."""
    own = _own(gguf)
    heads = _needed(gguf, "attention.head_count")
    rotated: dict[str, int] = {}
    if gguf.architecture == "llama":  # its converter puts the rotated pairs beside each other
        rotated = {"attn_q": heads, "attn_k": own.get("attention.head_count_kv", heads)}
    headers = {}
    for tensor in gguf.tensors.values():
        if tensor.name == _FREQUENCIES:
            continue
        name, num_heads = tensor.name, 0
        stem, _, end = tensor.name.rpartition(".")
        if stem in _NAMES:
            name = f"{_NAMES[stem]}.{end}"
        elif (found := _IN_LAYER.fullmatch(tensor.name)) and found[2] in _LAYER:
            name = f"model.layers.{found[1]}.{_LAYER[found[2]]}.{found[3]}"
            num_heads = rotated.get(found[2], 0)
        header = gguf_header(name, tensor.kind, tensor.shape, tensor.start, num_heads)
        end_byte = header.start + header.num_bytes
        if end_byte > gguf.num_bytes:
            raise ModelLoadError(
                f"{gguf.path}: has {gguf.num_bytes} bytes, but '{tensor.name}' ends at {end_byte}"
            )
        headers[name] = header
    return headers


def _own(gguf: GGUFFile) -> dict[str, Any]:
    """Return the metadata of the architecture, without its name."""
    prefix = f"{gguf.architecture}."
    return {
        key.removeprefix(prefix): value
        for key, value in gguf.metadata.items()
        if key.startswith(prefix)
    }


def _needed(gguf: GGUFFile, key: str) -> Any:
    """Return a number of the metadata."""
    value = gguf.metadata.get(f"{gguf.architecture}.{key}")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _error(gguf, key, f"must be a number, but is {value!r}")
    return value


def _error(gguf: GGUFFile, key: str, message: str) -> ModelLoadError:
    return ModelLoadError(f"{gguf.path}: '{gguf.architecture}.{key}' {message}")
