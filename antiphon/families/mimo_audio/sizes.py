"""Makers of checkpoints of published sizes and a tiny one, without weights."""

from pathlib import Path

from antiphon.families.kit.random_checkpoint import (
    Making,
    checkpoint_maker,
    configs_of,
    write_byte_tokenizer,
    write_configs,
)
from antiphon.families.mimo_audio.text_tokenizer import IM_END, IM_START, SPEECH_TOKENS

SPECIAL_TOKENS = ("<|endoftext|>", IM_START, IM_END, *SPEECH_TOKENS)
"""Special tokens, whose ids follow the 256 bytes."""
CONFIGS = Path(__file__).with_name("sizes.json")


@checkpoint_maker(sizes=("tiny", "7b"), tasks=("custom_voice",))
def make_checkpoint(path: Path, making: Making) -> None:
    """Write configuration and text tokenizer, with the audio tokenizer's in a subdirectory."""
    configs = configs_of(CONFIGS, making.size)
    configs["config.json"]["dtype"] = making.dtype
    write_configs(path, configs)
    tokenizer = {"eos_token": IM_END, "pad_token": "<|endoftext|>", "model_max_length": 8192}
    write_byte_tokenizer(path, SPECIAL_TOKENS, tokenizer)
