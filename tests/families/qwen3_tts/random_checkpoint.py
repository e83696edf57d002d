"""Checkpoints of random weights in the official layout.

The official package loads them too, so that both implementations can be compared without published
weights. A seed gives the same bytes on every machine.
"""

import re
from pathlib import Path
from typing import Any, Literal, TypeAlias

from antiphon.families.qwen3_tts.checkpoint import codec_layout, main_layout
from antiphon.families.qwen3_tts.config import CODEC_DIRECTORY, Qwen3TTSConfig
from antiphon.families.qwen3_tts.config_reader import load_config
from antiphon.families.qwen3_tts.sizes import make_checkpoint as without_weights
from tests.families.qwen3_tts.random_recipe import recipe
from tests.families.random_files import write_tensors
from tests.families.whole_checkpoints import Whole, WholeCheckpoints

Size: TypeAlias = Literal["tiny", "tiny-0.6b", "0.6b", "1.7b"]

_CODEC_SEED_OFFSET = 1
FEW_GROUPS = 4
_NUM_GROUPS = re.compile(r'"(num_code_groups|num_quantizers|encoder_valid_num_quantizers)": 16\b')


def write_weights(path: Path, making: Whole) -> None:
    """Write weights by the configuration in a directory; the codec's are always float32."""
    config, seed = load_config(path), making.seed
    main, codec = (recipe(layout(config), config) for layout in (main_layout, codec_layout))
    write_tensors(path, main, seed, making.dtype, shards=making.shards)
    write_tensors(path / CODEC_DIRECTORY, codec, seed + _CODEC_SEED_OFFSET, "float32")


def without_most_groups(path: Path, **what: Any) -> None:
    """Write the configuration and tokenizer files of a model of few codes a frame."""
    without_weights(path, **what)
    for file in (path / "config.json", path / CODEC_DIRECTORY / "config.json"):
        text = file.read_text(encoding="utf-8")
        file.write_text(_NUM_GROUPS.sub(rf'"\1": {FEW_GROUPS}', text), encoding="utf-8")


make_full_checkpoint = WholeCheckpoints(without_weights, write_weights)
make_checkpoint = WholeCheckpoints(without_most_groups, write_weights)
"""A maker of models whose frames are made in a quarter of the time."""


def write_all_but_weights(path: Path, **what: Any) -> Qwen3TTSConfig:
    without_weights(path, **what)
    return load_config(path)
