"""The toy with a second channel, an octave of loudness below the first: as a codec, and whole."""

from collections.abc import Generator
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from antiphon.contracts.family import ItemKind, LoadContext, Ref, StageKind, StageSpec
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import AudioChunk, Samples
from antiphon.families.registry import FAMILIES
from antiphon.families.toy import FAMILY as TOY
from antiphon.families.toy.codec import ToneCodec, ToneState
from antiphon.families.toy.prompt import ToyPrompter

RATE_HZ = 24_000


class StereoPrompter(ToyPrompter):
    def __init__(self, context: LoadContext) -> None:
        super().__init__(context)
        self.capabilities = replace(self.capabilities, channels=2)


class StereoCodec(ToneCodec):
    def decode_row(self, frames: NDArray[np.float64], state: list[ToneState], slot: int) -> Samples:
        mono = super().decode_row(frames, state, slot)
        return np.stack([mono, mono / 2], axis=1)


class StereoGenerator:
    """Noise, of which the second channel is half of the first."""

    def __init__(self, context: LoadContext) -> None:
        """Nothing to load."""

    def generate(self, prompt: Prompt) -> Generator[AudioChunk, None, None]:
        random = np.random.default_rng(prompt.seed)
        for num_samples in (1000, 1, 12_000):
            mono = 0.1 * random.standard_normal(num_samples).astype(np.float32)
            yield AudioChunk(np.stack([mono, mono / 2], axis=1), RATE_HZ, 1)

    def close(self) -> None:
        """Nothing to free."""


_PROMPTER = Ref("tests.two_channels:StereoPrompter")
_SPEECH = TOY.tasks["speech"]
_TALKER, _CODEC = _SPEECH.pipeline
_GENERATOR = StageSpec(
    "noise",
    StageKind.GENERATOR,
    ItemKind.TEXT,
    ItemKind.AUDIO,
    Ref("tests.two_channels:StereoGenerator"),
)
_STEREO_CODEC = replace(_CODEC, factory=Ref("tests.two_channels:StereoCodec"))
_DECODED = replace(_SPEECH, prompter=_PROMPTER, pipeline=(_TALKER, _STEREO_CODEC))
_GENERATED = replace(_SPEECH, prompter=_PROMPTER, pipeline=(_GENERATOR,))
DECODED = replace(TOY, name="decoded", tasks={"speech": _DECODED})
GENERATED = replace(TOY, name="generated", tasks={"speech": _GENERATED})


def register(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add the families ``decoded`` and ``generated`` for one test."""
    for family in (DECODED, GENERATED):
        monkeypatch.setitem(FAMILIES, family.name, f"tests.two_channels:{family.name.upper()}")
