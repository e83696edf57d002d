"""Speech that would end at once, whose end is ignored, and drawn weights that are all audio."""

from dataclasses import replace
from pathlib import Path
from shutil import copytree

from antiphon.config import LoadFormat
from antiphon.contracts.family import LoadContext
from antiphon.contracts.types import Sampling
from antiphon.families.mimo_audio.config import load_config
from antiphon.families.mimo_audio.language_model import load_runner
from antiphon.families.mimo_audio.sizes import make_checkpoint
from antiphon.families.mimo_audio.text_tokenizer import load_text_tokenizer
from tests.families.mimo_audio.speaking import DRAWN, frames_of, prompt_of
from tests.families.weight_edits import head_row, leaning_rows, write_rows

NUM_FRAMES = 12


def make_ending(path: Path) -> None:
    """Make an id that ends speech the likeliest in every group."""
    config = load_config(path)
    end = min(load_text_tokenizer(path, config.vocab_size).stop_ids)
    wanted = head_row(config.transformer)
    leaning = leaning_rows("model", config.transformer)
    write_rows(path, {**leaning, "lm_head.weight": {end: wanted}})


def texts_of(
    path: Path, seed: int, sampling: Sampling = DRAWN, load_format: LoadFormat = "auto"
) -> list[int]:
    """Return the text ids of groups, as many as come before an end."""
    runner = load_runner(LoadContext(path, "cpu", "float32", 1, load_format=load_format))
    prompt = prompt_of(path, f"Sentence {seed}.", sampling, seed)
    return [int(each[0]) for each in frames_of(runner, {0: prompt}, NUM_FRAMES)[0]]


def test_speech_that_would_end_goes_on(checkpoint: Path, tmp_path: Path) -> None:
    path = tmp_path / "ending"
    copytree(checkpoint, path)
    make_ending(path)
    assert all(len(texts_of(path, seed)) < NUM_FRAMES for seed in range(2))
    endless = replace(DRAWN, ignore_eos=True)
    assert all(len(texts_of(path, seed, endless)) == NUM_FRAMES for seed in range(2))
    late = replace(DRAWN, min_frames=5)
    assert all(5 <= len(texts_of(path, seed, late)) < NUM_FRAMES for seed in range(2))


def test_drawn_weights_are_all_audio(tmp_path: Path) -> None:
    make_checkpoint(tmp_path)
    empty = load_text_tokenizer(tmp_path, load_config(tmp_path).vocab_size).empty_id
    for seed in range(2):
        assert texts_of(tmp_path, seed, load_format="dummy") == [empty] * NUM_FRAMES
