"""What measurements make of random weights: speech that would end at once does not end."""

from contextlib import closing
from pathlib import Path
from shutil import copytree

import pytest
import torch

from antiphon.contracts.family import LoadContext
from antiphon.families.cosyvoice3.bench_spec import make_endless
from antiphon.families.cosyvoice3.checkpoint import LANGUAGE_FILE, TEXT_PREFIX
from antiphon.families.cosyvoice3.config import load_config
from antiphon.families.cosyvoice3.runner import load_runner
from antiphon.families.kit.weight_edits import head_row, leaning_rows
from tests.families.cosyvoice3.speech import prompt_of, tokens_of

NUM_TOKENS = 24


def make_ending(path: Path, end: int) -> None:
    """Make one of the ids that end speech, by its number among them, the likeliest."""
    config, file = load_config(path), path / LANGUAGE_FILE
    tensors = torch.load(file, weights_only=True)
    wanted = {config.num_tokens + end: head_row(config.text, is_wanted=True)}
    edits = {**leaning_rows(TEXT_PREFIX, config.text), "llm_decoder.weight": wanted}
    for name, rows in edits.items():
        for row, values in rows.items():
            tensors[name][row] = torch.from_numpy(values).view_as(tensors[name][row])
    torch.save(tensors, file)


def num_tokens(path: Path) -> list[int]:
    """Return how many tokens come before an end, or before all that are wanted."""
    with closing(load_runner(LoadContext(path, "cpu", max_slots=2), max_positions=64)) as runner:
        prompts = {slot: prompt_of((1, 2, 3), seed=slot) for slot in range(2)}
        return [len(each) for each in tokens_of(runner, prompts, NUM_TOKENS).values()]


@pytest.mark.parametrize("end", [0, 199])
def test_speech_that_would_end_is_made_endless(base: Path, tmp_path: Path, end: int) -> None:
    path = tmp_path / "ending"
    copytree(base, path)
    make_ending(path, end)
    assert max(num_tokens(path)) < NUM_TOKENS / 2
    make_endless(path)
    assert num_tokens(path) == [NUM_TOKENS] * 2
