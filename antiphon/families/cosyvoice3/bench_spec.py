"""What measurements need to know: how to make speech never end."""

from pathlib import Path

import torch

from antiphon.families.cosyvoice3.checkpoint import LANGUAGE_FILE, TEXT_PREFIX
from antiphon.families.cosyvoice3.config import load_config
from antiphon.families.kit.weight_edits import head_row, leaning_rows


def make_endless(path: Path) -> None:
    """Change a checkpoint of random weights so that its speech never ends by itself.

    What ends speech scores below all tokens: draws against repetitions are from the whole
    distribution, so that it must not be merely unlikely.
    """
    config, file = load_config(path), path / LANGUAGE_FILE
    tensors = torch.load(file, weights_only=True)
    end = head_row(config.text, is_wanted=False)
    head = dict.fromkeys(range(config.num_tokens, config.num_speech_ids), end)
    edits = {**leaning_rows(TEXT_PREFIX, config.text), "llm_decoder.weight": head}
    for name, rows in edits.items():
        for row, values in rows.items():
            tensors[name][row] = torch.from_numpy(values).view_as(tensors[name][row])
    torch.save(tensors, file)
