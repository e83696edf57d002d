"""Configurations of random checkpoints: tiny ones of each layout, and some published sizes."""

from typing import Any, Literal, TypeAlias

from antiphon.families.causal_lm.omni.random_configs import voice_configs

Size: TypeAlias = Literal["tiny", "135m", "0.6b", "1b", "7b"]
Layout: TypeAlias = Literal["qwen3", "qwen2", "llama", "omni", "omni_voice", "thinker"]
Json: TypeAlias = dict[str, Any]

TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
FIRST_SPECIAL = 256  # bytes come first
EOS_ID = FIRST_SPECIAL + SPECIAL_TOKENS.index("<|im_end|>")

_ARCHITECTURES = {
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "llama": "LlamaForCausalLM",
    "omni": "Qwen2_5OmniModel",
    "omni_voice": "Qwen2_5OmniModel",
    "thinker": "Qwen2_5OmniThinkerForConditionalGeneration",
}
# Width, feed-forward width, layers, heads, key-value heads, head size, vocabulary size, whether the
# head is tied, positions, base of the rotary embedding.
_SIZES: dict[Size, tuple[int, int, int, int, int, int, int, bool, int, float]] = {
    "tiny": (48, 80, 2, 6, 2, 16, 264, False, 4096, 10000.0),
    "135m": (576, 1536, 30, 9, 3, 64, 49152, True, 8192, 100000.0),  # SmolLM2
    "0.6b": (1024, 3072, 28, 16, 8, 128, 151936, True, 40960, 1e6),  # Qwen3
    "1b": (2048, 8192, 16, 32, 8, 64, 128256, True, 131072, 500000.0),  # Llama 3.2
    "7b": (3584, 18944, 28, 28, 4, 128, 152064, False, 32768, 1e6),  # Qwen2.5 and the thinker
}


def main_config(size: Size, layout: Layout, dtype: str) -> Json:
    """Return the contents of config.json."""
    text, architecture = _text_config(size, layout), _ARCHITECTURES[layout]
    top: Json = {"architectures": [architecture], "dtype": dtype}
    if layout in ("omni", "omni_voice"):
        thinker = {"model_type": "qwen2_5_omni_thinker", "text_config": text}
        top |= {"model_type": "qwen2_5_omni", "thinker_config": thinker}
        if layout == "omni_voice":
            top |= voice_configs(is_tiny=size == "tiny", thinker_width=text["hidden_size"])
        return top
    if layout == "thinker":
        return top | {"model_type": "qwen2_5_omni_thinker", "text_config": text}
    return top | {"model_type": layout} | text


def _text_config(size: Size, layout: Layout) -> Json:
    width, inner, layers, heads, kv_heads, head_dim, ids, is_tied, positions, theta = _SIZES[size]
    text: Json = {
        "hidden_act": "silu",
        "hidden_size": width,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "vocab_size": ids,
        "max_position_embeddings": positions,
        "rms_norm_eps": 1e-6,
        "rope_theta": theta,
        "tie_word_embeddings": is_tied or (size == "tiny" and layout == "qwen2"),
        "eos_token_id": EOS_ID,
        "bos_token_id": None,
        "use_cache": True,
    }
    if layout in ("qwen3", "llama"):
        text["head_dim"] = head_dim
    elif head_dim * heads != width:
        text |= {"hidden_size": head_dim * heads}
    if layout in ("omni", "omni_voice", "thinker"):
        eighth = head_dim // 16  # of the pairs: 2, 3 and 3 eighths for time, height and width
        sections = [2 * eighth, 3 * eighth, 3 * eighth]
        text["rope_scaling"] = {"mrope_section": sections, "rope_type": "default"}
        text["model_type"] = "qwen2_5_omni_text"
    if layout == "llama" and size in ("tiny", "1b"):
        text["rope_scaling"] = {
            "rope_type": "llama3",
            "factor": 32.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192 if size == "1b" else 64,
        }
    return text


GENERATION: Json = {
    "do_sample": True,
    "eos_token_id": [EOS_ID, FIRST_SPECIAL],
    "temperature": 0.7,
    "top_k": 20,
    "top_p": 0.8,
    "repetition_penalty": 1.05,
}
