"""Maker of checkpoints of published and of tiny sizes, without weights."""

from pathlib import Path

from transformers import Qwen2VLImageProcessorPil

from antiphon.diffusion.random_tokenizer import qwen_tokenizer
from antiphon.families.kit.random_checkpoint import (
    Making,
    checkpoint_maker,
    configs_of,
    write_configs,
)
from antiphon.families.qwen_image.checkpoint import TEMPLATE

_CONFIGS = Path(__file__).with_name("sizes.json")
_IDS = {
    "image_token_id": "<|image_pad|>",
    "video_token_id": "<|video_pad|>",
    "vision_start_token_id": "<|vision_start|>",
    "vision_end_token_id": "<|vision_end|>",
    "eos_token_id": "<|im_end|>",
    "bos_token_id": "<|endoftext|>",
}


@checkpoint_maker(sizes=("tiny", "20b"), tasks=("base", "edit", "edit_plus"))
def make_checkpoint(path: Path, making: Making) -> None:
    """Write configuration and tokenizer files.

    ``"base"`` generates images from text, ``"edit"`` edits one image, ``"edit_plus"`` several.
    """
    tokenizer = qwen_tokenizer(TEMPLATE)
    configs = configs_of(_CONFIGS, making.size, making.task)
    images = configs.pop("processor")
    ids = {key: tokenizer.convert_tokens_to_ids(token) for key, token in _IDS.items()}
    encoder = configs["text_encoder/config.json"]
    encoder |= {**ids, "dtype": making.dtype}
    encoder["text_config"] |= {name: ids[name] for name in ("bos_token_id", "eos_token_id")}
    write_configs(path, configs)
    tokenizer.save_pretrained(str(path / "tokenizer"))
    if making.task != "base":
        tokenizer.save_pretrained(str(path / "processor"))
        Qwen2VLImageProcessorPil(**images).save_pretrained(str(path / "processor"))
