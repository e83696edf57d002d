"""Keys of positions: equal where the model reads the same, and nowhere else."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from antiphon.contracts.prompt import Prompt
from antiphon.families.qwen3_tts.config import CheckpointTask, Qwen3TTSConfig
from antiphon.families.qwen3_tts.config_reader import load_config
from antiphon.families.qwen3_tts.prompt_layout import (
    SPEAKER,
    Qwen3TTSPrompt,
    Qwen3TTSRequest,
    position_keys,
)
from tests.families.qwen3_tts.lm import made_prompt, opened


@pytest.fixture(scope="module")
def config(checkpoint: Callable[..., Path]) -> Qwen3TTSConfig:
    return load_config(checkpoint("tiny", CheckpointTask.BASE))


@pytest.fixture(scope="module")
def prompt(config: Qwen3TTSConfig) -> Prompt:
    return made_prompt(config, seed=1, num_reference_frames=12)


def keys(config: Qwen3TTSConfig, prompt: Prompt, **changes: Any) -> list[int]:
    data: Qwen3TTSPrompt = replace(prompt.data, **changes)
    return list(position_keys(config, data))


def differing(first: list[int], second: list[int]) -> list[int]:
    return [at for at, (a, b) in enumerate(zip(first, second, strict=True)) if a != b]


def test_every_position_has_a_key_of_64_bits(config: Qwen3TTSConfig, prompt: Prompt) -> None:
    made = keys(config, prompt)
    assert len(made) == prompt.num_positions
    assert all(0 <= key < 2**64 for key in made)
    assert len(set(made)) == len(made), "these positions read different things"
    assert keys(config, prompt) == made


def test_a_change_shows_where_it_is_read(config: Qwen3TTSConfig, prompt: Prompt) -> None:
    data, made = prompt.data, keys(config, prompt)
    begin = len(data.prefix)
    speaker = data.speaker.copy()
    speaker[-1] += 1e-6
    speaks = [at for at, (_, codec) in enumerate(data.prefix) if codec == SPEAKER]
    assert differing(made, keys(config, prompt, speaker=speaker)) == speaks
    reference = data.reference.copy()
    reference[4, -1] ^= 1
    assert differing(made, keys(config, prompt, reference=reference)) == [begin + 5]
    reference = data.reference.copy()
    reference[-1, 0] ^= 1  # the first frame's input, which is not read before it
    assert keys(config, prompt, reference=reference) == made
    text = (*data.text[:3], data.text[3] + 1, *data.text[4:])
    assert differing(made, keys(config, prompt, text=text)) == [begin + 3]
    prefix = list(data.prefix)
    prefix[2] = (prefix[2][0] + 1, prefix[2][1])
    assert differing(made, keys(config, prompt, prefix=tuple(prefix))) == [2]


def test_text_after_the_reference_and_seeds_change_nothing(
    config: Qwen3TTSConfig, prompt: Prompt
) -> None:
    text = (*prompt.data.text, 5, 6)
    assert len(prompt.data.text) >= 12
    assert keys(config, prompt, text=text) == keys(config, prompt)


def test_an_open_prompt_has_keys_as_far_as_it_is_known(
    config: Qwen3TTSConfig, prompt: Prompt
) -> None:
    whole = keys(config, prompt)
    for num_late in range(1, len(prompt.data.text)):
        early, _ = opened(prompt, num_late, [])
        known = list(position_keys(config, early.data))
        assert known == whole[: len(known)]
        num_beside = len(early.data.text)
        assert len(known) == len(prompt.data.prefix) + min(num_beside, 12)


def test_columns_are_the_same_however_they_are_cut(config: Qwen3TTSConfig, prompt: Prompt) -> None:
    data = prompt.data
    made = np.random.default_rng(0).integers(0, 2048, (6, config.talker.num_groups))
    request, end = Qwen3TTSRequest.of(data, made, row=0), data.num_prefilled + len(made)
    whole = request.columns(config, 0, end)
    assert len(whole.frames) == len(data.reference) + len(made) - 1
    for cut in range(1, end):
        parts = [request.columns(config, start, stop) for start, stop in ((0, cut), (cut, end))]
        assert (np.concatenate([part.text for part in parts]) == whole.text).all()
        assert (np.concatenate([part.codec for part in parts]) == whole.codec).all()
        assert (np.concatenate([part.frames for part in parts]) == whole.frames).all()
