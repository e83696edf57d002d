"""Writer of checkpoints with random weights in the official layout, for tests and benchmarks."""

from pathlib import Path
from typing import Any

import torch
from diffusers import (
    AutoencoderKLQwenImage,
    FlowMatchEulerDiscreteScheduler,
    QwenImageTransformer2DModel,
)
from transformers import (
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2VLImageProcessorPil,
)

from antiphon.diffusion.random_pipeline import RandomPipeline, write_pipeline
from antiphon.diffusion.random_tokenizer import qwen_tokenizer
from antiphon.families.kit.random_checkpoint import Making, checkpoint_maker
from antiphon.families.qwen_image.checkpoint import TEMPLATE
from antiphon.families.qwen_image.editing import Variant

SIZES = ("tiny", "20b")
TASKS = {
    "base": Variant.GENERATE,
    "edit": Variant.EDIT,
    "edit_plus": Variant.EDIT_PLUS,
}
_TRANSFORMERS: dict[str, dict[str, Any]] = {
    "tiny": {
        "num_layers": 2,
        "attention_head_dim": 16,
        "num_attention_heads": 4,
        "joint_attention_dim": 32,
        "axes_dims_rope": (4, 6, 6),
    },
    "20b": {},
}
_VAES: dict[str, dict[str, Any]] = {
    "tiny": {"base_dim": 8, "dim_mult": [1, 1, 1, 1], "num_res_blocks": 1},
    "20b": {},
}
_TEXT: dict[str, dict[str, Any]] = {
    "tiny": {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 1024,
        "max_position_embeddings": 4096,
        "mrope_section": [1, 1, 2],
    },
    "20b": {
        "hidden_size": 3584,
        "intermediate_size": 18944,
        "num_hidden_layers": 28,
        "num_attention_heads": 28,
        "num_key_value_heads": 4,
        "vocab_size": 152064,
        "max_position_embeddings": 128000,
        "mrope_section": [16, 24, 24],
    },
}
_PROCESSOR = ["transformers", "Qwen2VLProcessor"]
_IMAGES: dict[str, dict[str, Any]] = {
    "tiny": {"min_pixels": 28 * 28, "max_pixels": 112 * 112},
    "20b": {"min_pixels": 56 * 56, "max_pixels": 28 * 28 * 16384},
}
"""Image sizes of the text encoder."""
_VISION: dict[str, dict[str, Any]] = {
    "tiny": {
        "depth": 1,
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_heads": 2,
        "out_hidden_size": 32,
        "fullatt_block_indexes": [0],
        "window_size": 28,
    },
    "20b": {
        "depth": 32,
        "hidden_size": 1280,
        "intermediate_size": 3420,
        "num_heads": 16,
        "out_hidden_size": 3584,
        "fullatt_block_indexes": [7, 15, 23, 31],
        "window_size": 112,
    },
}


@checkpoint_maker(sizes=SIZES, tasks=tuple(TASKS))
def make_checkpoint(path: Path, making: Making) -> None:
    """Write a checkpoint.

    ``"base"`` generates images from text, ``"edit"`` edits one image, ``"edit_plus"`` several.
    """
    size = making.size
    tokenizer = qwen_tokenizer(TEMPLATE)
    with torch.device("meta"):
        networks = {
            "text_encoder": Qwen2_5_VLForConditionalGeneration(_encoder_config(size, tokenizer)),
            "transformer": QwenImageTransformer2DModel(**_TRANSFORMERS[size]),
            "vae": AutoencoderKLQwenImage(**_VAES[size]),
        }
    scheduler = FlowMatchEulerDiscreteScheduler(
        base_image_seq_len=256,
        base_shift=0.5,
        max_image_seq_len=8192,
        max_shift=0.9,
        shift_terminal=0.02,
        use_dynamic_shifting=True,
    )
    variant = TASKS[making.task]
    pipeline = RandomPipeline(
        pipeline=variant.value,
        networks=networks,
        others={"scheduler": scheduler, "tokenizer": tokenizer},
        settings={} if variant is Variant.GENERATE else {"processor": _PROCESSOR},
    )
    write_pipeline(
        path,
        pipeline,
        seed=making.seed,
        dtype=making.dtype,
        shards=making.shards,
        progress=making.progress,
    )
    if variant is not Variant.GENERATE:
        folder = str(path / "processor")
        tokenizer.save_pretrained(folder)
        Qwen2VLImageProcessorPil(**_IMAGES[size]).save_pretrained(folder)


def _encoder_config(size: str, tokenizer: Any) -> Qwen2_5_VLConfig:
    text = dict(_TEXT[size])
    sections = text.pop("mrope_section")
    rope = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": sections}
    ids = {
        f"{name}_token_id": tokenizer.convert_tokens_to_ids(f"<|{token}|>")
        for name, token in (
            ("image", "image_pad"),
            ("video", "video_pad"),
            ("vision_start", "vision_start"),
            ("vision_end", "vision_end"),
            ("eos", "im_end"),
        )
    }
    ids["bos_token_id"] = tokenizer.convert_tokens_to_ids("<|endoftext|>")
    return Qwen2_5_VLConfig(
        text_config={
            **text,
            "rope_parameters": rope,
            "bos_token_id": ids["bos_token_id"],
            "eos_token_id": ids["eos_token_id"],
        },
        vision_config={**_VISION[size], "patch_size": 14},
        **ids,
    )
