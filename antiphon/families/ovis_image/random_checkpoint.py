"""Makes checkpoints of random weights in the official layout, for tests and measurements."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from diffusers import AutoencoderKL, FlowMatchEulerDiscreteScheduler, OvisImageTransformer2DModel
from transformers import Qwen3Config, Qwen3Model

from antiphon.diffusion.random_pipeline import RandomPipeline, write_pipeline
from antiphon.diffusion.random_tokenizer import qwen_tokenizer
from antiphon.families.ovis_image.checkpoint import INSTRUCTION
from antiphon.nn.random_weights import Dtype, check_arguments

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


def make_checkpoint(
    path: Path,
    *,
    size: str,
    task: str = TASKS[0],
    vocabulary: str = "byte",
    seed: int = 0,
    dtype: Dtype = "float32",
    shards: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Write a checkpoint's directory; it may exist, and what it holds is replaced file by file.

    Args:
        path: the directory.
        size: ``"tiny"`` runs in seconds on a CPU; ``"7b"`` has the published sizes.
        task: ``"base"``: images from text.
        vocabulary: ``"byte"``: one that reads any text.
        seed: of all weights.
        dtype: of all weights.
        shards: files that the transformer is spread over.
        progress: called with the bytes written so far and the bytes in all.

    Raises:
        ModelLoadError: an argument is none of these.
    """
    check_arguments(size=(size, SIZES), task=(task, TASKS), vocabulary=(vocabulary, ("byte",)))
    tokenizer = qwen_tokenizer(INSTRUCTION)
    tokenizer.chat_template = _CHAT_TEMPLATE
    ids = {
        "bos_token_id": tokenizer.convert_tokens_to_ids("<|endoftext|>"),
        "eos_token_id": tokenizer.convert_tokens_to_ids("<|im_end|>"),
    }
    with torch.device("meta"):
        networks = {
            "text_encoder": Qwen3Model(Qwen3Config(**_TEXT[size], **ids)),
            "transformer": OvisImageTransformer2DModel(**_TRANSFORMERS[size]),
            "vae": _vae(size),
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
    write_pipeline(path, pipeline, seed=seed, dtype=dtype, shards=shards, progress=progress)


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
