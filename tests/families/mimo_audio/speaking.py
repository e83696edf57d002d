"""Prompts, and the frames that a runner makes of them."""

from pathlib import Path
from typing import Any

from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import Sampling
from antiphon.families.mimo_audio.config import load_config
from antiphon.families.mimo_audio.language_model import load_runner
from antiphon.families.mimo_audio.prompt import MiMoAudioPrompt, text_groups
from antiphon.families.mimo_audio.text_tokenizer import load_text_tokenizer
from tests.families.language_models import LanguageModel
from tests.families.weight_edits import head_row, leaning_rows, write_rows

GREEDY = Sampling(temperature=0.0, top_k=0, top_p=1.0, repetition_penalty=1.0)
DRAWN = Sampling(temperature=0.9, top_k=30, top_p=0.95, repetition_penalty=1.0)


def make_all_audio(path: Path) -> None:
    """Change a random checkpoint so that every group contains audio."""
    config = load_config(path)
    empty_id = load_text_tokenizer(path, config.vocab_size).empty_id
    head = {empty_id: head_row(config.transformer)}
    write_rows(path, {**leaning_rows("model", config.transformer), "lm_head.weight": head})


def prompt_of(
    checkpoint: Path, text: str, sampling: Sampling = GREEDY, seed: int = 1, **more: Any
) -> Prompt:
    config = load_config(checkpoint)
    ids = load_text_tokenizer(checkpoint, config.vocab_size).encode([text])
    return Prompt(
        data=MiMoAudioPrompt(text_groups(config, ids), sampling),
        num_tokens=len(ids),
        seed=seed,
        sampling=sampling,
        num_positions=len(ids) - 1,
        **more,
    )


def make_ending(path: Path) -> None:
    """Make an id that ends speech the likeliest in every group."""
    config = load_config(path)
    end = min(load_text_tokenizer(path, config.vocab_size).stop_ids)
    head = {end: head_row(config.transformer)}
    write_rows(path, {**leaning_rows("model", config.transformer), "lm_head.weight": head})


def _prompts(path: Path) -> dict[int, Prompt]:
    prompts = {slot: prompt_of(path, f"Sentence {slot}.", DRAWN, slot) for slot in range(3)}
    return {**prompts, 3: prompt_of(path, "Number 1")}


LANGUAGE_MODEL = LanguageModel(load_runner, _prompts, make_ending)
