"""Guards end speech that goes nowhere, and let slow, silent or playful speech pass."""

import random

import pytest

from antiphon.models.qwen3_tts.guards import LoopDetector, frame_budget


def first_alarm(codes: list[int]) -> int | None:
    detector = LoopDetector()
    return next((at for at, code in enumerate(codes) if detector.observe(code)), None)


def speech(num_frames: int, seed: int = 0) -> list[int]:
    rng = random.Random(seed)
    return [rng.randrange(2048) for _ in range(num_frames)]


def test_speech_passes() -> None:
    assert first_alarm(speech(3000)) is None


@pytest.mark.parametrize("period", [1, 2, 7, 25, 32])
def test_a_loop_is_found_within_seconds_wherever_it_begins(period: int) -> None:
    before = speech(40, seed=1)
    alarm = first_alarm(before + speech(period, seed=2) * 300)
    assert alarm is not None
    assert len(before) + 90 <= alarm <= len(before) + period + 101


def test_silence_without_end_is_found() -> None:
    rng = random.Random(3)
    silence = [rng.choice([7, 8, 9, 10]) for _ in range(400)]
    alarm = first_alarm(speech(30) + silence)
    assert alarm is not None
    assert 100 <= alarm <= 30 + 100


def test_a_pause_of_five_seconds_passes() -> None:
    assert first_alarm((speech(50) + [7] * 62) * 5) is None


def test_laughter_that_repeats_for_five_seconds_passes() -> None:
    assert first_alarm(speech(50) + [1, 2, 3, 4, 5] * 12 + speech(50, seed=1)) is None


def test_the_budget_grows_with_the_text_and_is_never_tight() -> None:
    budgets = [frame_budget(num_tokens) for num_tokens in range(1, 500)]
    assert budgets == sorted(budgets)
    # Slow speech takes 0.5 s a token: 6 frames and a bit.
    assert all(budget >= 7 * num_tokens for num_tokens, budget in enumerate(budgets, 1))
    assert budgets[0] >= 15 * 12.5
