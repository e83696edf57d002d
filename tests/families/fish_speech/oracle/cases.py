"""What is recorded with the official code, and compared with it."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from antiphon.families.fish_speech.config import SAMPLE_RATE_HZ, load_config
from antiphon.families.fish_speech.prompt import Imitated, PromptLayout
from antiphon.families.fish_speech.tokenizer import load_tokenizer
from antiphon.families.kit.mixed.prompt import FRAME
from tests.families.fish_speech import random_checkpoint

FIXTURE = Path(__file__).parent.parent / "fixtures" / "official.npz"
NUM_CODES, NUM_CODEBOOKS = 160, 10
NUM_CODEC_FRAMES = 140
"""More than the codec's transformer sees at once."""
WAVE_STEP = 61
"""Of the decoded samples only every so many are kept: enough to see any difference."""
S1_PATTERN = (
    *(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)", r"\p{P}", r"[^\r\n\p{L}\p{N}]?\p{L}+", r"\p{N}"),
    *(r" ?[^\s\p{L}\p{N}]+[\r\n]*", r"\s*[\r\n]+", r"\s+(\?!\S)", r"\s+"),
)
"""Of the vocabulary that S1 is published with."""
TEXTS = (
    "Hello there, don't worry: 3.14 isn't 22/7!",
    "  two  spaces\n\n new line \t tab ?!x  ?!",
    "Grüße, 你好，世界！ (laughing) wow…",
    "",
    "I'LL say 'tis <|im_end|> <|speaker:0|>ok",
)


@dataclass(frozen=True, slots=True)
class Spoken:
    """A text that is spoken with draws of its own."""

    name: str
    task: str
    text: str
    seed: int
    temperature: float
    top_p: float
    top_k: int
    num_frames: int
    ref_text: str = ""
    num_reference: int = 0

    @property
    def reference(self) -> NDArray[np.int64] | None:
        """Frames of the recording to be imitated."""
        if not self.num_reference:
            return None
        random = np.random.Generator(np.random.PCG64(self.seed))
        return random.integers(0, NUM_CODES, (self.num_reference, NUM_CODEBOOKS))


SPOKEN = (
    Spoken("plain", "s2", "Hello there, how are you?", 1, 1.0, 0.9, 30, 48),
    Spoken("hot", "s2", "Grüße, 你好!", 2, 1.7, 1.0, 160, 48),
    Spoken("cold", "s2", "Again and again.", 4, 0.2, 0.3, 5, 48),
    Spoken("clone", "s2", "[whisper] Hello.", 3, 0.8, 0.8, 30, 48, "What I said.", 12),
    Spoken("s1", "s1", "Hello there.", 5, 0.8, 0.8, 30, 48),
    Spoken("s1-clone", "s1", "(excited) Hello!", 6, 0.7, 0.7, 30, 48, "What I said.", 12),
)


def make_checkpoint(path: Path, task: str) -> None:
    random_checkpoint.make_checkpoint(path, size="tiny", task=task)


def interleaved(path: Path, case: Spoken) -> NDArray[np.int64]:
    """Return a prompt of S1 as the official models read it: ids, and codes below them."""
    config = load_config(path)
    layout = PromptLayout(config.layout, load_tokenizer(path).encode, config.tokens)
    codes = case.reference
    voice = None if codes is None else Imitated(case.ref_text, codes)
    ids, _ = layout.lay_out(case.text, voice)
    values = np.zeros((1 + NUM_CODEBOOKS, len(ids)), np.int64)
    values[0] = ids
    if codes is not None:
        values[0, ids == FRAME] = codes[:, 0] + config.tokens.first_semantic
        values[1:, ids == FRAME] = codes.T
    return values


def codes() -> NDArray[np.int64]:
    random = np.random.Generator(np.random.PCG64(11))
    return random.integers(0, NUM_CODES, (NUM_CODEC_FRAMES, NUM_CODEBOOKS))


def recording() -> NDArray[np.float32]:
    """Return seven seconds of tones that rise and fall, with noise, and an incomplete frame."""
    random = np.random.Generator(np.random.PCG64(12))
    seconds = np.arange(7 * SAMPLE_RATE_HZ + 1234) / SAMPLE_RATE_HZ
    tones = sum(
        np.sin(2 * np.pi * hz * (1 + 0.1 * np.sin(seconds)) * seconds) / number
        for number, hz in enumerate((140, 290, 610, 1230, 2900), 1)
    )
    envelope = 0.5 + 0.5 * np.sin(2 * np.pi * 3 * seconds)
    noise = random.standard_normal(len(seconds))
    return (0.1 * envelope * (tones + 0.3 * noise)).astype(np.float32)


def ranks() -> dict[bytes, int]:
    """Return a vocabulary of bytes and some words."""
    words = [b"Hello", b" there", b" don", b"isn", b" world", b" two", b"  ", b"\n\n", b" new"]
    found = {bytes([value]): value for value in range(256)}
    for word in words:
        for end in range(2, len(word) + 1):
            found.setdefault(word[:end], len(found))
    return found
