"""Maker of checkpoints of published and of tiny sizes, without weights."""

import string
from pathlib import Path
from typing import Any

from transformers import CLIPImageProcessorPil, T5Tokenizer

from antiphon.families.kit.random_checkpoint import (
    Making,
    checkpoint_maker,
    configs_of,
    write_configs,
)
from antiphon.nn.random_weights import check_arguments

SIZES = {
    "t2v-2.1": ("tiny", "1.3b", "14b"),
    "t2v-2.2-a14b": ("tiny", "14b"),
    "ti2v-2.2-5b": ("tiny", "5b"),
    "i2v-2.2-a14b": ("tiny", "14b"),
    "i2v-2.1": ("tiny", "14b"),
}
"""Sizes of each layout: those of its published checkpoints, and a tiny one."""
_CONFIGS = Path(__file__).with_name("sizes.json")
_WORDS = "a the cat dog red blue runs sits on in of and with sun sea snow bright blurred static"


@checkpoint_maker(tasks=tuple(SIZES))
def make_checkpoint(path: Path, making: Making) -> None:
    """Write configuration and tokenizer files; the task is the checkpoint's layout."""
    size, layout = making.size, making.task
    check_arguments(size=(size, SIZES[layout]))
    tokenizer = _tokenizer()
    configs = configs_of(_CONFIGS, size, layout, f"{layout}, {size}")
    configs["text_encoder/config.json"]["dtype"] = making.dtype
    if size == "tiny":
        configs["text_encoder/config.json"]["vocab_size"] = len(tokenizer)
    if configs["model_index.json"]["boundary_ratio"] is not None:
        configs["transformer_2/config.json"] = configs["transformer/config.json"]
    write_configs(path, {name: content for name, content in configs.items() if content})
    tokenizer.save_pretrained(str(path / "tokenizer"))
    if vision := configs["image_encoder/config.json"]:
        side = vision["image_size"]
        processor = CLIPImageProcessorPil(size=side, crop_size=side)
        processor.save_pretrained(str(path / "image_processor"))


def _tokenizer() -> Any:
    pieces = {"<pad>": 0.0, "</s>": 0.0, "<unk>": 0.0, "▁": -2.0}
    pieces |= {f"▁{word}": -3.0 for word in _WORDS.split()}
    pieces |= {letter: -6.0 for letter in string.printable if not letter.isspace()}
    make: Any = T5Tokenizer
    return make(vocab=list(pieces.items()), extra_ids=0)
