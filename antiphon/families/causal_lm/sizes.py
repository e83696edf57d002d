"""Maker of checkpoints of published sizes and tiny ones in each layout, without weights."""

from pathlib import Path
from typing import Any

import torch

from antiphon.families.causal_lm.omni.config import SPEAKERS, load_omni_config
from antiphon.families.kit.random_checkpoint import (
    Json,
    Making,
    checkpoint_maker,
    configs_of,
    write_byte_tokenizer,
    write_configs,
)
from antiphon.families.kit.token_decoder import byte_letters
from antiphon.nn.random_weights import random_values

CONFIGS = Path(__file__).with_name("sizes.json")
SIZES = ("tiny", "135m", "0.6b", "1b", "7b")  # SmolLM2, Qwen3, Llama 3.2, and Qwen2.5's 7B
TASKS = ("qwen3", "qwen2", "llama", "omni", "omni_voice", "thinker")
SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
"""Special tokens, whose ids follow the 256 bytes."""
_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_REF_FRAMES = 30


@checkpoint_maker(sizes=SIZES, tasks=TASKS)
def make_checkpoint(path: Path, making: Making) -> None:
    """Write configuration, tokenizer and speakers; the task is the layout.

    ``"omni"`` is the thinker in the layout of a whole Qwen2.5-Omni, ``"omni_voice"`` also has the
    talker, and ``"thinker"`` is the thinker saved by itself.
    """
    parts = _parts(making.size, making.task)
    config = config_of(making.size, making.task) | {"dtype": making.dtype}
    generation = parts["generation_config.json"]
    write_configs(path, {"config.json": config, "generation_config.json": generation})
    tokenizer = {
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "model_max_length": 4096,
        "chat_template": _TEMPLATE,
    }
    write_byte_tokenizer(path, SPECIAL_TOKENS, tokenizer, byte_letters())
    if making.task == "omni_voice":
        flow = load_omni_config(path).flow
        shapes = {"cond": (1, flow.enc_emb_dim), "ref_mel": (1, _REF_FRAMES, flow.mel_dim)}
        speakers: dict[str, dict[str, Any]] = {
            name: {"bos_token": token}
            | {
                key: torch.from_numpy(random_values(f"{name}.{key}", shape, 1.0))
                for key, shape in shapes.items()
            }
            for name, token in parts["speakers"].items()
        }
        torch.save(speakers, path / SPEAKERS)


def config_of(size: str, layout: str) -> Json:
    parts = _parts(size, layout)
    top, text = parts["config.json"], parts["text"]
    if layout in ("qwen3", "llama"):
        return top | text
    head_dim = text.pop("head_dim")  # that of these layouts follows from the width
    text["hidden_size"] = head_dim * text["num_attention_heads"]
    if layout == "qwen2":
        return top | text
    eighth = head_dim // 16  # of the pairs: 2, 3 and 3 eighths for time, height and width
    sections = [2 * eighth, 3 * eighth, 3 * eighth]
    text["rope_scaling"] = {"mrope_section": sections, "rope_type": "default"}
    text["model_type"] = "qwen2_5_omni_text"
    (top if layout == "thinker" else top["thinker_config"])["text_config"] = text
    if layout == "omni_voice":
        top["talker_config"]["embedding_size"] = text["hidden_size"]
    return top


def _parts(size: str, layout: str) -> dict[str, Json]:
    scale = "tiny" if size == "tiny" else "published"
    return configs_of(CONFIGS, scale, size, layout, f"{layout}, {scale}", f"{layout}, {size}")
