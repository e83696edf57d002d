"""What the official package and we are asked: one request for each way of bringing a voice."""

from dataclasses import dataclass

import numpy as np

from antiphon.contracts.types import Samples

RATE_HZ = 48_000
MAX_FRAMES = 6


@dataclass(frozen=True, slots=True)
class Case:
    """A request.

    Attributes:
        instructions: how to speak.
        reference: whether there is a recording of the voice.
        prompt_text: what the recording says that is continued; ``None``: none is.
        has_audio: whether what is decoded is recorded too.
    """

    text: str
    seed: int
    instructions: str | None = None
    reference: bool = False
    prompt_text: str | None = None
    guidance: float = 2.0
    num_steps: int = 10
    has_audio: bool = False


CASES = {
    "plain": Case("Hello there.  How are you?", 1, has_audio=True),
    "chinese": Case("你好 is hello, 123!", 2, num_steps=5),
    "designed": Case("Good morning.", 3, instructions="A calm, low voice", guidance=3.5),
    "reference": Case("It sounds like that.", 4, reference=True),
    "continued": Case(" And it goes on.", 5, prompt_text="It began.", has_audio=True),
    "both": Case("Closest of all.", 6, reference=True, prompt_text="It began.", num_steps=50),
}


def recording(seed: int, duration_s: float) -> Samples:
    """Return something with pitch and noise, at `RATE_HZ`."""
    times = np.arange(round(duration_s * RATE_HZ)) / RATE_HZ
    rng = np.random.default_rng(seed)
    tone = sum(np.sin(2 * np.pi * 140 * k * times + k) / k for k in range(1, 6))
    samples = 0.1 * tone * (1 + np.sin(9 * times)) + 0.01 * rng.normal(size=len(times))
    return np.asarray(samples, np.float32)


def reference() -> Samples:
    return recording(1, 0.33)


def continued() -> Samples:
    return recording(2, 0.21)
