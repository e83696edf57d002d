"""What measurements need to know: how to make speech never end."""

from pathlib import Path

import numpy as np

from antiphon.families.kit.weight_edits import write_rows
from antiphon.families.qwen3_tts.config_reader import load_config

_HEAD = "talker.codec_head.weight"


def make_endless(path: Path) -> None:
    """Change a checkpoint of random weights so that its speech never ends by itself.

    The row that scores the end of speech becomes zero, and so does its score: at least fifty of two
    thousand random scores are higher, and no draw among the likeliest comes upon it.
    """
    talker = load_config(path).talker
    zeros = np.zeros(talker.transformer.hidden_size, np.float32)
    write_rows(path, {_HEAD: {talker.tokens.eos: zeros}})
