"""Random weights whose output is all audio, for benchmarks."""

from pathlib import Path

from antiphon.families.kit.weight_edits import head_row, leaning_rows, write_rows
from antiphon.families.mimo_audio.config_reader import load_config
from antiphon.families.mimo_audio.text_tokenizer import load_text_tokenizer


def make_all_audio(path: Path) -> None:
    """Change a random checkpoint so that every group contains audio.

    The text id of audio groups then scores above all others.
    """
    config = load_config(path)
    sizes = config.transformer
    empty_id = load_text_tokenizer(path, config.vocab_size).empty_id
    head = {empty_id: head_row(sizes)}
    write_rows(path, {**leaning_rows("model", sizes), "lm_head.weight": head})
