"""Random weights whose speech is audio throughout, for measurements of speed."""

from pathlib import Path

from antiphon.families.kit.weight_edits import head_row, leaning_rows, write_rows
from antiphon.families.mimo_audio.config_reader import load_config
from antiphon.families.mimo_audio.text_tokenizer import load_text_tokenizer


def make_all_audio(path: Path) -> None:
    """Change a checkpoint of random weights so that every group is one of audio.

    The id of such a group scores above all text.
    """
    config = load_config(path)
    sizes = config.transformer
    empty_id = load_text_tokenizer(path, config.vocab_size).empty_id
    head = {empty_id: head_row(sizes)}
    write_rows(path, {**leaning_rows("model", sizes), "lm_head.weight": head})
