"""Maker of checkpoints of the published size and of a tiny one, without weights."""

import json
from pathlib import Path

import torch

from antiphon.families.kit.random_checkpoint import Making, checkpoint_maker, configs_of
from antiphon.families.kokoro.checkpoint import MAX_PHONEMES, STYLE_SIZE
from antiphon.nn.random_weights import random_values

CONFIGS = Path(__file__).with_name("sizes.json")
VOICES = ("af_heart", "af_sky", "am_adam", "bf_emma", "jf_alpha", "zf_xiaoxiao")


@checkpoint_maker(sizes=("tiny", "82M"), vocabularies=(), dtypes=("float32",))
def make_checkpoint(path: Path, making: Making) -> None:
    """Write configuration and random voices; neither task nor vocabulary has an effect."""
    (path / "voices").mkdir(parents=True, exist_ok=True)
    config = configs_of(CONFIGS, making.size)["config.json"]
    content = json.dumps(config, ensure_ascii=False, indent=2)
    (path / "config.json").write_text(content + "\n", encoding="utf-8")
    for voice in VOICES:
        styles = random_values(voice, (MAX_PHONEMES, 1, STYLE_SIZE), 0.2)
        torch.save(torch.from_numpy(styles), path / "voices" / f"{voice}.pt")
