"""Directories of checkpoints made from GGUF files: JSON files and an index, no copy of a tensor."""

import hashlib
import json
import math
import os
import re
import shutil
import tempfile
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
_MAX_HEAD_DIM: Final = 1024


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
    parts = gguf.metadata.get("split.count", 1)
    if parts != 1:
        raise ModelLoadError(
            f"{gguf.path}: is one of {parts} parts ('split.count'); join them with"
            " llama-gguf-split --merge"
        )
    heads, width = _number(gguf, "attention.head_count"), _number(gguf, "embedding_length")
    head_dim = _number(gguf, "attention.key_length", width // max(1, heads))
    num_layers = _number(gguf, "block_count")
    embedding = gguf.tensors.get("token_embd.weight")
    if embedding is None or len(embedding.shape) != 2:
        raise ModelLoadError(f"{gguf.path}: there is no matrix 'token_embd.weight'")
    if num_layers > len(gguf.tensors):
        raise _error(gguf, "block_count", f"is {num_layers}, more than there are tensors")
    for key, allowed in {
        "rope.dimension_count": head_dim,
        "attention.value_length": head_dim,
        "expert_count": 0,
        "attention.sliding_window": 0,
    }.items():
        if (value := gguf.metadata.get(f"{gguf.architecture}.{key}", allowed)) != allowed:
            raise _error(gguf, key, f"is {value!r}; only {allowed} is supported")
    return {
        "architectures": [_ARCHITECTURES[gguf.architecture]],
        "hidden_size": width,
        "num_hidden_layers": num_layers,
        "intermediate_size": _number(gguf, "feed_forward_length"),
        "num_attention_heads": heads,
        "num_key_value_heads": _number(gguf, "attention.head_count_kv", heads),
        "head_dim": head_dim,
        "max_position_embeddings": _number(gguf, "context_length"),
        "rms_norm_eps": _float(gguf, "attention.layer_norm_rms_epsilon"),
        "rope_theta": _float(gguf, "rope.freq_base", 10000.0),
        "rope_scaling": _scaling(gguf, head_dim),
        "vocab_size": embedding.shape[0],
        "tie_word_embeddings": "output.weight" not in gguf.tensors,
        "attention_bias": "blk.0.attn_q.bias" in gguf.tensors,
        "eos_token_id": end_ids(gguf.metadata),
    }


def _scaling(gguf: GGUFFile, head_dim: int) -> dict[str, Any] | None:
    """Return the scaling of the rotary embedding."""
    if _FREQUENCIES in gguf.tensors:
        return _llama3(gguf, head_dim)
    kind = gguf.metadata.get(f"{gguf.architecture}.rope.scaling.type", "none")
    if kind == "none":
        return None
    return {
        "rope_type": kind,
        "factor": _float(gguf, "rope.scaling.factor"),
        "original_max_position_embeddings": _number(gguf, "rope.scaling.original_context_length"),
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
    theta = _float(gguf, "rope.freq_base", 10000.0)
    wavelengths = 2 * np.pi * theta ** (np.arange(0, head_dim, 2) / head_dim)
    factor, high = float(stored.max(initial=1)), _LLAMA3["high_freq_factor"]
    share = ((_LLAMA3_POSITIONS / wavelengths - 1) / (high - 1)).clip(0, 1)
    divisors = 1 / ((1 - share) / factor + share)
    if stored.shape != divisors.shape or not np.allclose(stored, divisors, 1e-3):
        raise error
    positions = {"original_max_position_embeddings": _LLAMA3_POSITIONS}
    return {"rope_type": "llama3", "factor": factor, **_LLAMA3, **positions}


def _headers(gguf: GGUFFile) -> dict[str, GGUFHeader]:
    """Return the tensors by the names of config.json's architecture."""
    heads = _number(gguf, "attention.head_count")
    rotated: dict[str, int] = {}
    if gguf.architecture == "llama":  # its converter puts the rotated pairs beside each other
        rotated = {"attn_q": heads, "attn_k": _number(gguf, "attention.head_count_kv", heads)}
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


def _number(gguf: GGUFFile, key: str, default: int | None = None) -> int:
    """Return a whole number of the metadata."""
    value = gguf.metadata.get(f"{gguf.architecture}.{key}", default)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise _error(gguf, key, f"must be a whole number above 0, but is {value!r}")
    return value


def _float(gguf: GGUFFile, key: str, default: float | None = None) -> float:
    """Return a number of the metadata."""
    value = gguf.metadata.get(f"{gguf.architecture}.{key}", default)
    if not isinstance(value, float) or not 0 < value < math.inf:
        raise _error(gguf, key, f"must be a number above 0, but is {value!r}")
    return value


def _error(gguf: GGUFFile, key: str, message: str) -> ModelLoadError:
    return ModelLoadError(f"{gguf.path}: '{gguf.architecture}.{key}' {message}")
