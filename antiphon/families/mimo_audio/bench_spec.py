"""What measurements need to know: how to make speech never end, and all of it audio."""

from pathlib import Path

from antiphon.families.kit.weight_edits import head_row, leaning_rows, write_rows
from antiphon.families.mimo_audio.config_reader import load_config
from antiphon.families.mimo_audio.text_tokenizer import load_text_tokenizer


def make_endless(path: Path) -> None:
    """Change a checkpoint of random weights so that it speaks in every group and never ends.

    The id of a group of audio scores above all text, and what ends speech below it.
    """
    config = load_config(path)
    tokenizer = load_text_tokenizer(path, config.vocab_size)
    sizes = config.transformer
    ends = [each for each in tokenizer.stop_ids if each < config.vocab_size]
    head = dict.fromkeys(ends, head_row(sizes, is_wanted=False))
    head[tokenizer.empty_id] = head_row(sizes, is_wanted=True)
    write_rows(path, {**leaning_rows("model", sizes), "lm_head.weight": head})
