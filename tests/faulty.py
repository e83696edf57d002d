"""A family that does what its input says: a number of chunks, then an ending of choice."""

import re
import threading
from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pytest

from antiphon.contracts.family import (
    Family,
    ItemKind,
    LoadContext,
    Ref,
    SpeechCapabilities,
    StageKind,
    StageSpec,
    Task,
)
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import AudioChunk, Samples, SpeechRequest, Voice
from antiphon.errors import EngineError
from antiphon.families.registry import FAMILIES

SAMPLE_RATE_HZ = 24_000
CHUNK_SAMPLES = 12_000


class Ending(StrEnum):
    """What comes after the chunks."""

    STOP = "stop"
    ENGINE_ERROR = "engine error"
    BUG = "bug"
    HANG = "hang"  # until it may go on
    SILENCE = "silence"  # for ever, in chunks without a sample


PULLED: Counter[int] = Counter()
"""Chunks that each request, named by its seed, was asked for."""

GO_ON = threading.Event()
"""Lets generators that hang go on."""

_LONGEST_HANG_S = 60.0


@dataclass(frozen=True)
class Script:
    num_chunks: int
    ending: Ending


class ScriptPrompter:
    """Reads ``"3 chunks, then stop"``."""

    def __init__(self, context: LoadContext) -> None:
        self.capabilities = SpeechCapabilities(
            sample_rate_hz=SAMPLE_RATE_HZ, voices=(Voice(id="script", name="Script"),)
        )

    def build(self, request: SpeechRequest, voice: Voice, seed: int) -> Prompt:
        found = re.fullmatch(r"(\d+) chunks, then (.*)", request.input)
        script = Script(int(found[1]), Ending(found[2])) if found else Script(1, Ending.STOP)
        return Prompt(data=script, num_tokens=1, seed=seed)


class ScriptGenerator:
    """Plays scripts; a request's chunk is noise that depends on seed and number."""

    def __init__(self, context: LoadContext) -> None:
        """Nothing to load."""

    def generate(self, prompt: Prompt) -> Generator[AudioChunk, None, None]:
        script: Script = prompt.data
        for index in range(script.num_chunks):
            PULLED[prompt.seed] += 1
            yield AudioChunk(_noise(prompt.seed, index), SAMPLE_RATE_HZ, num_frames=1)
        if script.ending is Ending.ENGINE_ERROR:
            raise EngineError("the script says so")
        if script.ending is Ending.BUG:
            raise RuntimeError("a secret of the inside")
        if script.ending is Ending.HANG:
            PULLED[prompt.seed] += 1
            assert GO_ON.wait(_LONGEST_HANG_S), "nobody let it go on"
        while script.ending is Ending.SILENCE:
            PULLED[prompt.seed] += 1
            yield AudioChunk(np.zeros(0, np.float32), SAMPLE_RATE_HZ)

    def close(self) -> None:
        """Nothing to free."""


def _noise(seed: int, index: int) -> Samples:
    uniform = np.random.default_rng((seed, index)).random(CHUNK_SAMPLES, np.float32)
    return uniform * 0.2 - 0.1


FAMILY = Family(
    name="faulty",
    title="Does what it is told",
    tasks={
        "speech": Task(
            request=SpeechRequest,
            prompter=Ref("tests.faulty:ScriptPrompter"),
            pipeline=(
                StageSpec(
                    "script",
                    StageKind.GENERATOR,
                    ItemKind.TEXT,
                    ItemKind.AUDIO,
                    Ref("tests.faulty:ScriptGenerator"),
                ),
            ),
        )
    },
)


def register(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FAMILIES, "faulty", "tests.faulty:FAMILY")
