"""Writer of checkpoints with random weights in the official layout, for tests and benchmarks."""

from pathlib import Path
from typing import Any

import torch
from diffusers import AutoencoderKL, FlowMatchEulerDiscreteScheduler, OvisImageTransformer2DModel
from transformers import Qwen3Config, Qwen3Model

from antiphon.diffusion.random_pipeline import RandomPipeline, write_pipeline
from antiphon.diffusion.random_tokenizer import qwen_tokenizer
from antiphon.families.kit.random_checkpoint import Making, checkpoint_maker
from antiphon.families.ovis_image.checkpoint import INSTRUCTION

SIZES = ("tiny", "7b")
TASKS = ("base",)
_CHAT_TEMPLATE = (
    "{%- for message in messages %}"
    "{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{%- endif %}"
)
_TRANSFORMERS: dict[str, dict[str, Any]] = {
    "tiny": {
        "num_layers": 1,
        "num_single_layers": 2,
        "attention_head_dim": 16,
        "num_attention_heads": 4,
        "joint_attention_dim": 32,
        "axes_dims_rope": (4, 6, 6),
    },
    "7b": {},
}
_VAES: dict[str, dict[str, Any]] = {
    "tiny": {"block_out_channels": (8, 8, 8, 8), "layers_per_block": 1, "norm_num_groups": 4},
    "7b": {"block_out_channels": (128, 256, 512, 512), "layers_per_block": 2},
}
_TEXT: dict[str, dict[str, Any]] = {
    "tiny": {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "vocab_size": 1024,
        "max_position_embeddings": 4096,
    },
    "7b": {
        "hidden_size": 2048,
        "intermediate_size": 6144,
        "num_hidden_layers": 28,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "vocab_size": 151936,
        "max_position_embeddings": 40960,
    },
}


@checkpoint_maker(sizes=SIZES, tasks=TASKS)
def make_checkpoint(path: Path, making: Making) -> None:
    """Write a text-to-image checkpoint."""
    tokenizer = qwen_tokenizer(INSTRUCTION)
    tokenizer.chat_template = _CHAT_TEMPLATE
    ids = {
        "bos_token_id": tokenizer.convert_tokens_to_ids("<|endoftext|>"),
        "eos_token_id": tokenizer.convert_tokens_to_ids("<|im_end|>"),
    }
    with torch.device("meta"):
        networks = {
            "text_encoder": Qwen3Model(Qwen3Config(**_TEXT[making.size], **ids)),
            "transformer": OvisImageTransformer2DModel(**_TRANSFORMERS[making.size]),
            "vae": _vae(making.size),
        }
    scheduler = FlowMatchEulerDiscreteScheduler(
        shift=3.0,
        use_dynamic_shifting=True,
        base_shift=0.5,
        max_shift=1.15,
        base_image_seq_len=256,
        max_image_seq_len=4096,
    )
    pipeline = RandomPipeline(
        pipeline="OvisImagePipeline",
        networks=networks,
        others={"scheduler": scheduler, "tokenizer": tokenizer},
    )
    write_pipeline(
        path,
        pipeline,
        seed=making.seed,
        dtype=making.dtype,
        shards=making.shards,
        progress=making.progress,
    )


def _vae(size: str) -> Any:
    return AutoencoderKL(
        **_VAES[size],
        latent_channels=16,
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
        sample_size=1024,
        scaling_factor=0.3611,
        shift_factor=0.1159,
        use_quant_conv=False,
        use_post_quant_conv=False,
    )
