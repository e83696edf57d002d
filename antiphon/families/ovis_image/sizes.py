"""Maker of checkpoints of published and of tiny sizes, without weights."""

from pathlib import Path

from antiphon.diffusion.random_tokenizer import qwen_tokenizer
from antiphon.families.kit.random_checkpoint import (
    Making,
    checkpoint_maker,
    configs_of,
    write_configs,
)
from antiphon.families.ovis_image.checkpoint import INSTRUCTION

_CONFIGS = Path(__file__).with_name("sizes.json")
_CHAT_TEMPLATE = (
    "{%- for message in messages %}"
    "{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{%- endif %}"
)


@checkpoint_maker(sizes=("tiny", "7b"), tasks=("base",))
def make_checkpoint(path: Path, making: Making) -> None:
    """Write configuration and tokenizer of a text-to-image checkpoint."""
    tokenizer = qwen_tokenizer(INSTRUCTION)
    tokenizer.chat_template = _CHAT_TEMPLATE
    configs = configs_of(_CONFIGS, making.size)
    configs["text_encoder/config.json"] |= {
        "bos_token_id": tokenizer.convert_tokens_to_ids("<|endoftext|>"),
        "eos_token_id": tokenizer.convert_tokens_to_ids("<|im_end|>"),
        "dtype": making.dtype,
    }
    write_configs(path, configs)
    tokenizer.save_pretrained(str(path / "tokenizer"))
