"""Makers of checkpoints of the published size and of a tiny one, without weights."""

from pathlib import Path

import numpy as np
import torch
from tokenizers.pre_tokenizers import ByteLevel

from antiphon.families.cosyvoice3.config import CONFIG_FILE, TEXT_FOLDER
from antiphon.families.cosyvoice3.voices import VOICES_FILE
from antiphon.families.kit.random_checkpoint import (
    Making,
    checkpoint_maker,
    configs_of,
    write_configs,
    write_json,
)

CONFIGS = Path(__file__).with_name("sizes.json")
VOICE = "random"
_FIRST_TINY_MARK = 256


@checkpoint_maker(sizes=("tiny", "0.5b"), tasks=("base", "custom_voice"), dtypes=("float32",))
def make_checkpoint(path: Path, making: Making) -> None:
    """Write configuration and tokenizer: a byte vocabulary, with marks after it in a tiny one.

    ``"base"`` clones voices from reference audio; ``"custom_voice"`` also has a built-in voice in
    spk2info.pt.
    """
    configs = configs_of(CONFIGS, making.size)
    write_configs(path, configs)
    vocabulary = {letter: number for number, letter in enumerate(sorted(ByteLevel.alphabet()))}
    if making.size == "tiny":
        vocabulary["<|endoftext|>"] = _FIRST_TINY_MARK
    write_json(path / TEXT_FOLDER / "vocab.json", vocabulary)
    (path / TEXT_FOLDER / "merges.txt").write_text("#version: 0.2\n", encoding="utf-8")
    (path / VOICES_FILE).unlink(missing_ok=True)
    if making.task == "custom_voice":
        size = configs[CONFIG_FILE]["flow"]["spk_embed_dim"]
        speaker = np.random.default_rng(0).standard_normal((1, size), np.float32)
        torch.save({VOICE: {"embedding": torch.from_numpy(speaker)}}, path / VOICES_FILE)
