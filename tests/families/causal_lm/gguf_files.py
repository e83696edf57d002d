"""GGUF files of chat checkpoints, by the description of the format."""

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_F32, _F16 = 0, 1


def write_gguf(
    checkpoint: Path, file: Path, changes: dict[str, Any] | None = None, *, q8: bool = False
) -> None:
    """Write a checkpoint as llama.cpp does, in F32 and F16.

    Args:
        changes: keys of the metadata that differ; ``None`` removes one.
        q8: whether matrices are quantised, which needs the package ``gguf``.
    """
    config = json.loads((checkpoint / "config.json").read_text())
    kind = config["architectures"][0].removesuffix("ForCausalLM").lower()
    metadata = _metadata(checkpoint, config, kind) | (changes or {})
    weights: dict[str, NDArray[Any]] = {}
    for each in checkpoint.glob("*.safetensors"):
        weights |= load_file(each)
    tensors = []
    for name, values in weights.items():
        stem, _, end = name.rpartition(".")
        if stem.startswith("model.layers."):
            _, _, layer, part = stem.split(".", 3)
            named = f"blk.{layer}.{_NAMES[part]}.{end}"
            if kind == "llama" and _NAMES[part] in ("attn_q", "attn_k"):
                values = _beside(values, config["head_dim"])
        else:
            named = f"{_NAMES[stem]}.{end}"
        tensors.append((named, *_stored(named, values, q8=q8)))
    if scaling := config.get("rope_scaling"):
        divisors = _divisors(scaling, config["head_dim"], config["rope_theta"])
        tensors.append(("rope_freqs.weight", divisors.shape, _F32, divisors.tobytes()))
    file.write_bytes(packed(metadata, tensors))


def packed(
    metadata: dict[str, Any], tensors: list[tuple[str, tuple[int, ...], int, bytes]]
) -> bytes:
    """Return the bytes of a file, of metadata and of names, shapes, types and values."""
    found = {key: value for key, value in metadata.items() if value is not None}
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(found))
    for key, value in found.items():
        head += _string(key) + _value(value)
    data = b""
    for name, shape, kind, values in tensors:
        sizes = struct.pack(f"<I{len(shape)}Q", len(shape), *shape[::-1])
        head += _string(name) + sizes + struct.pack("<IQ", kind, len(data))
        data += values + bytes(-len(values) % 32)
    return head + bytes(-len(head) % 32) + data


def _metadata(checkpoint: Path, config: dict[str, Any], kind: str) -> dict[str, Any]:
    tokenizer = json.loads((checkpoint / "tokenizer.json").read_text())
    named = json.loads((checkpoint / "tokenizer_config.json").read_text())
    vocabulary = tokenizer["model"]["vocab"]
    added = {each["content"]: each["id"] for each in tokenizer["added_tokens"]}
    tokens = {number: token for token, number in (vocabulary | added).items()}
    size = config["vocab_size"]
    heads = config["num_attention_heads"]
    sizes = {
        "block_count": config["num_hidden_layers"],
        "context_length": config["max_position_embeddings"],
        "embedding_length": config["hidden_size"],
        "feed_forward_length": config["intermediate_size"],
        "attention.head_count": heads,
        "attention.head_count_kv": config["num_key_value_heads"],
        "attention.layer_norm_rms_epsilon": config["rms_norm_eps"],
        "attention.key_length": config.get("head_dim", config["hidden_size"] // heads),
        "rope.freq_base": float(config["rope_theta"]),
    }
    return {
        "general.architecture": kind,
        **{f"{kind}.{key}": value for key, value in sizes.items()},
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "qwen2",
        "tokenizer.ggml.tokens": [tokens.get(id, f"[PAD{id}]") for id in range(size)],
        "tokenizer.ggml.token_type": [
            3 if tokens.get(id) in added else 1 if id in tokens else 5 for id in range(size)
        ],
        "tokenizer.ggml.merges": [],
        "tokenizer.ggml.eos_token_id": added[named["eos_token"]],
        "tokenizer.chat_template": named["chat_template"],
    }


def _beside(values: NDArray[Any], head_dim: int) -> NDArray[Any]:
    """Put rotated pairs, which are in both halves of a head, beside each other."""
    halves = values.reshape(-1, 2, head_dim // 2, *values.shape[1:])
    return halves.swapaxes(1, 2).reshape(values.shape)


def _divisors(scaling: dict[str, Any], head_dim: int, theta: float) -> NDArray[np.float32]:
    """Return what llama.cpp's converter writes for Llama 3's scaling."""
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    positions, divisors = scaling["original_max_position_embeddings"], []
    for pair in range(head_dim // 2):
        wavelength = 2 * np.pi * theta ** (2 * pair / head_dim)
        if wavelength < positions / high:
            divisors.append(1.0)
        elif wavelength > positions / low:
            divisors.append(scaling["factor"])
        else:
            smooth = (positions / wavelength - low) / (high - low)
            divisors.append(1 / ((1 - smooth) / scaling["factor"] + smooth))
    return np.array(divisors, np.float32)


def _stored(name: str, values: NDArray[Any], *, q8: bool) -> tuple[tuple[int, ...], int, bytes]:
    if q8 and values.ndim > 1 and values.shape[1] % 32 == 0:
        import gguf

        q8_0 = gguf.GGMLQuantizationType.Q8_0
        return values.shape, int(q8_0), gguf.quantize(values.astype(np.float32), q8_0).tobytes()
    kind, dtype = (_F16, np.float16) if name == "output_norm.weight" else (_F32, np.float32)
    return values.shape, kind, values.astype(dtype).tobytes()


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _value(value: Any) -> bytes:
    if isinstance(value, str):
        return struct.pack("<I", 8) + _string(value)
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if value and isinstance(value[0], int):
        return struct.pack(f"<IIQ{len(value)}i", 9, 5, len(value), *value)
    return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(_string, value))
