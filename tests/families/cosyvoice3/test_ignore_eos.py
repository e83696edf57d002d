"""Speech that would end at once, whose end is ignored or put off."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from shutil import copytree

import pytest
import torch

from antiphon.contracts.family import LoadContext
from antiphon.contracts.types import Sampling
from antiphon.families.cosyvoice3.checkpoint import TEXT_PREFIX
from antiphon.families.cosyvoice3.config import load_config
from antiphon.families.cosyvoice3.language_model import load_runner
from tests.families.cosyvoice3.speech import DRAWN, prompt_of, tokens_of
from tests.families.weight_edits import head_row, leaning_rows

NUM_TOKENS = 24


def make_ending(path: Path, end: int) -> None:
    """Make one of the ids that end speech, by its number among them, the likeliest."""
    config, file = load_config(path), path / "llm.pt"
    tensors = torch.load(file, weights_only=True)
    wanted = {config.num_tokens + end: head_row(config.text)}
    edits = {**leaning_rows(TEXT_PREFIX, config.text), "llm_decoder.weight": wanted}
    for name, rows in edits.items():
        for row, values in rows.items():
            tensors[name][row] = torch.from_numpy(values).view_as(tensors[name][row])
    torch.save(tensors, file)


def num_tokens(path: Path, sampling: Sampling = DRAWN) -> list[int]:
    """Return how many tokens come before an end, or before all that are wanted."""
    with closing(load_runner(LoadContext(path, "cpu", max_slots=2), max_positions=64)) as runner:
        prompts = {slot: prompt_of((1, 2, 3), seed=slot, sampling=sampling) for slot in range(2)}
        return [len(each) for each in tokens_of(runner, prompts, NUM_TOKENS).values()]


@pytest.mark.parametrize("end", [0, 199])
def test_speech_that_would_end_at_once_goes_on(base: Path, tmp_path: Path, end: int) -> None:
    path = tmp_path / "ending"
    copytree(base, path)
    make_ending(path, end)
    assert max(num_tokens(path)) < NUM_TOKENS / 2
    assert num_tokens(path, replace(DRAWN, ignore_eos=True)) == [NUM_TOKENS] * 2
    least = NUM_TOKENS // 2
    assert all(
        least <= each < NUM_TOKENS for each in num_tokens(path, replace(DRAWN, min_frames=least))
    )
