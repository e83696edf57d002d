"""What is asked of the published modules and of ours, to be compared; always the same numbers."""

import numpy as np
from numpy.typing import NDArray

CHECKPOINT_SEED = 7
NUM_REFERENCE, NUM_TOKENS = 22, 40
"""Tokens of the recording and of the speech: chunks lie as in the published code."""
VOCODER_FRAMES = 26
LOGITS_STRIDE = 41
"""Of every so many-th id logits are kept."""
TEXT_IDS, SPEECH_IDS = (5, 80, 259, 17, 200, 41), (6000, 12, 12, 345, 6560)

Numbers = NDArray[np.float32]


def reference() -> tuple[NDArray[np.int64], Numbers, Numbers]:
    """Return tokens, mel frames and the speaker of a recording."""
    random = np.random.default_rng(1)
    tokens = random.integers(0, 6561, NUM_REFERENCE)
    mel = random.standard_normal((2 * NUM_REFERENCE, 80), np.float32)
    return tokens, mel, random.standard_normal(192, np.float32)


def speech_tokens() -> NDArray[np.int64]:
    return np.random.default_rng(2).integers(0, 6561, NUM_TOKENS)


def vocoder_mel() -> Numbers:
    return np.random.default_rng(3).standard_normal((VOCODER_FRAMES, 80), np.float32)


def recording(rate_hz: int) -> Numbers:
    """Return 0.8 s of a voice-like sound."""
    times = np.arange(int(0.8 * rate_hz)) / rate_hz
    random = np.random.default_rng(4)
    tone = sum(np.sin(2 * np.pi * 130 * times * each + each) / each for each in range(1, 20))
    loud = 0.1 * (1 + np.sin(2 * np.pi * 3 * times))
    noisy = loud * tone + 0.01 * random.standard_normal(len(times))
    made: Numbers = noisy.astype(np.float32)
    return made
