"""Groups of text and of speech."""

from pathlib import Path

import numpy as np

from antiphon.contracts.family import LoadContext
from antiphon.families.mimo_audio.config import load_config
from antiphon.families.mimo_audio.language_model import load_runner
from antiphon.families.mimo_audio.sizes import make_checkpoint
from antiphon.families.mimo_audio.text_tokenizer import load_text_tokenizer
from tests.engine.drive import generate, tokens_of
from tests.families.mimo_audio.speaking import DRAWN, prompt_of


def test_text_has_no_codes_and_speech_no_empty_ones(checkpoint: Path) -> None:
    runner = load_runner(LoadContext(checkpoint, "cpu", "float32", 4))
    prompts = {slot: prompt_of(checkpoint, f"Sentence {slot}.", DRAWN, slot) for slot in range(4)}
    made = generate(runner, prompts, 10)
    frames = np.concatenate([np.stack(each.frames) for each in made.values()])
    empty = np.array([32, 32, 8, 8, 8, 8, 8, 8] * 4)
    is_speech = frames[:, 0] == 261
    assert 0 < is_speech.sum() < len(frames)
    assert (frames[~is_speech, 1:] == empty).all()
    assert (frames[is_speech, 1:] < empty).all()


def test_drawn_weights_are_all_audio(tmp_path: Path) -> None:
    make_checkpoint(tmp_path)
    empty = load_text_tokenizer(tmp_path, load_config(tmp_path).vocab_size).empty_id
    prompts = {seed: prompt_of(tmp_path, f"Sentence {seed}.", DRAWN, seed) for seed in range(2)}
    context = LoadContext(tmp_path, "cpu", "float32", 2, load_format="dummy")
    assert tokens_of(load_runner(context), prompts, 12) == dict.fromkeys(prompts, [empty] * 12)
