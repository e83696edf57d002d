"""Codes are drawn from the distributions that the official package draws from."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from antiphon.contracts.family import LoadContext
from antiphon.contracts.types import Sampling, SpeechRequest, Voice
from antiphon.families.qwen3_tts.language_model import load_runner
from antiphon.families.qwen3_tts.prompt import Qwen3TTSPrompter
from tests.engine.drive import generate
from tests.families.qwen3_tts.oracle.draws import CHECKPOINT, SAMPLINGS, SPEAKER, TEXT, Drawing
from tests.nn.chi_square import excess

NUM_DRAWS = 500
RECORDED: list[dict[str, list[tuple[int, float]]]] = json.loads(
    (Path(__file__).parent / "fixtures" / "draws.json").read_text(encoding="utf-8")
)


@pytest.fixture(scope="module")
def first_codes(
    parity_checkpoint: Callable[[str], Path],
) -> Callable[[Drawing], NDArray[np.int64]]:
    """Return what many seeds say first, ``[NUM_DRAWS, 16]``."""
    context = LoadContext(parity_checkpoint(CHECKPOINT), "cpu", "float32", NUM_DRAWS, 2**26)
    runner = load_runner(context, is_batched=True, max_positions=64)
    prompter = Qwen3TTSPrompter(context)

    def draw(drawing: Drawing) -> NDArray[np.int64]:
        fields = dataclasses.asdict(drawing)
        options: dict[str, Any] = {
            name: fields.pop(name) for name in list(fields) if name.startswith("subtalker_")
        }
        request = SpeechRequest(TEXT, sampling=Sampling(**fields), options=options)
        voice = Voice(id=SPEAKER, name=SPEAKER)
        prompt = prompter.build(request, voice, 0)
        prompts = {seed: dataclasses.replace(prompt, seed=seed) for seed in range(NUM_DRAWS)}
        return np.array([each.frames[0] for each in generate(runner, prompts, 1).values()])

    return draw


def spread(listed: list[tuple[int, float]]) -> NDArray[np.float64]:
    probabilities = np.zeros(3072)
    for token, probability in listed:
        probabilities[token] = probability
    return probabilities


# Slow: thousands of draws each.
INDEXES = [
    pytest.param(each, marks=[pytest.mark.slow] if each else []) for each in range(len(SAMPLINGS))
]


@pytest.mark.parametrize("index", INDEXES)
def test_the_first_code_is_drawn_from_the_official_distribution(
    index: int, first_codes: Callable[[Drawing], NDArray[np.int64]]
) -> None:
    codes = first_codes(SAMPLINGS[index])
    counts = np.bincount(codes[:, 0], minlength=3072)
    assert excess(counts, spread(RECORDED[index]["group_0"])) < 1


@pytest.mark.slow  # likewise
@pytest.mark.parametrize("index", range(len(SAMPLINGS)))
def test_the_second_code_is_drawn_from_the_official_distribution(
    index: int, first_codes: Callable[[Drawing], NDArray[np.int64]]
) -> None:
    greedy_first = dataclasses.replace(SAMPLINGS[index], temperature=0.0)
    codes = first_codes(greedy_first)
    likeliest, _ = max(RECORDED[index]["group_0"], key=lambda each: each[1])
    assert (codes[:, 0] == likeliest).all()
    counts = np.bincount(codes[:, 1], minlength=3072)
    assert excess(counts, spread(RECORDED[index]["group_1"])) < 1
