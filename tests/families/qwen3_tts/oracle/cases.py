"""What is asked of the official package and of ours, to be compared; plain data, shared by both.

Needs numpy only, since it is imported in the oracle's environment too.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SAMPLE_RATE_HZ = 24_000

CHECKPOINTS: dict[str, tuple[str, str, int]] = {  # size, task, seed
    "custom": ("tiny", "custom_voice", 4),
    "custom-0.6b": ("tiny-0.6b", "custom_voice", 5),
    "design": ("tiny", "voice_design", 2),
    # One seed for both, so that they hear references alike.
    "base": ("tiny", "base", 2),
    "base-0.6b": ("tiny-0.6b", "base", 2),
}
REFERENCES = {"short": 2.0, "odd": 3.217, "long": 12.0}  # seconds
REFERENCE_CHECKPOINT = "base"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One greedy request.

    Attributes:
        checkpoint: a key of `CHECKPOINTS`.
        non_streaming: whether the text is given whole, before the first frame.
        reference: a key of `REFERENCES`, for a base checkpoint.
        reference_text: ``None`` uses the speaker vector alone.
        max_new_tokens: the official limit; one more than the frames that it allows.
        has_audio: whether the waveform is recorded too.
    """

    id: str
    checkpoint: str
    text: str
    non_streaming: bool
    language: str | None = None
    speaker: str | None = None
    instructions: str | None = None
    reference: str | None = None
    reference_text: str | None = None
    max_new_tokens: int = 40
    has_audio: bool = False


HELLO = "Hello there, how are you?"
FOX = "The quick brown fox jumps over the lazy dog, and 12 more."
MIXED = "Grüße aus Köln: 你好，世界! 🎉"
_SOFT = "Speak softly, as if it were late."


def _custom(id: str, text: str, speaker: str, non_streaming: bool, language: str | None) -> Case:
    return Case(
        id=id,
        checkpoint="custom",
        text=text,
        speaker=speaker,
        non_streaming=non_streaming,
        language=language,
    )


CASES: tuple[Case, ...] = (
    _custom("custom-whole-english", HELLO, "ryan", True, "English"),
    _custom("custom-streamed-english", HELLO, "ryan", False, "English"),
    _custom("custom-whole-auto", FOX, "serena", True, None),
    _custom("custom-streamed-auto", FOX, "serena", False, None),
    _custom("custom-whole-mixed-script", MIXED, "Vivian", True, "german"),
    _custom("custom-dialect-by-auto", HELLO, "eric", True, None),
    _custom("custom-dialect-by-chinese", HELLO, "dylan", False, "Chinese"),
    _custom("custom-no-dialect-in-english", HELLO, "eric", True, "English"),
    _custom("custom-one-letter", "a", "sohee", False, "Korean"),
    _custom("custom-leading-newline", "\nHi.", "aiden", True, "French"),
    Case(
        id="custom-instructed-whole",
        checkpoint="custom",
        text=HELLO,
        speaker="uncle_fu",
        instructions=_SOFT,
        non_streaming=True,
        has_audio=True,
    ),
    Case(
        id="custom-instructed-streamed",
        checkpoint="custom",
        text=FOX,
        speaker="ono_anna",
        language="Japanese",
        instructions=_SOFT,
        non_streaming=False,
        max_new_tokens=160,
    ),
    *(
        Case(
            id=f"custom-0.6b-{'whole' if non_streaming else 'streamed'}-{speaker}",
            checkpoint="custom-0.6b",
            text=text,
            speaker=speaker,
            language=language,
            instructions=_SOFT,
            non_streaming=non_streaming,
        )
        for text, speaker, language, non_streaming in (
            (HELLO, "ryan", "English", True),
            (FOX, "ryan", "Russian", False),
            (MIXED, "dylan", None, False),
        )
    ),
    *(
        Case(
            id=f"design-{'whole' if non_streaming else 'streamed'}-{language or 'auto'}".lower(),
            checkpoint="design",
            text=text,
            language=language,
            instructions=instructions,
            non_streaming=non_streaming,
            has_audio=language == "Italian",
        )
        for text, language, instructions, non_streaming in (
            (HELLO, None, "A deep voice, close to the microphone.", True),
            (FOX, "English", "An excited child.", False),
            (FOX, "Italian", "Calm.", True),
            (MIXED, "Portuguese", "耳语。", False),
        )
    ),
    *(
        Case(
            id=f"base-vector-{'whole' if non_streaming else 'streamed'}",
            checkpoint="base",
            text=FOX,
            language=language,
            reference=reference,
            non_streaming=non_streaming,
        )
        for language, reference, non_streaming in (
            ("French", "short", True),
            (None, "odd", False),
        )
    ),
    *(
        Case(
            id=f"base-{length}-{'whole' if non_streaming else 'streamed'}",
            checkpoint="base",
            text=text,
            language="English",
            reference="odd" if length == "shorter" else "short",
            reference_text=reference_text,
            non_streaming=non_streaming,
            has_audio=length == "shorter" and not non_streaming,
        )
        for length, text, reference_text in (
            ("shorter", HELLO, "Said."),
            ("longer", FOX, "This was said before."),
        )
        for non_streaming in (True, False)
    ),
    Case(
        id="base-after-long-reference",
        checkpoint="base",
        text=FOX,
        reference="long",
        reference_text="A long reference, of which little was written down.",
        non_streaming=False,
        max_new_tokens=80,
    ),
    Case(
        id="base-0.6b-vector-streamed",
        checkpoint="base-0.6b",
        text=HELLO,
        reference="short",
        language="Spanish",
        non_streaming=False,
    ),
    Case(
        id="base-0.6b-longer-streamed",
        checkpoint="base-0.6b",
        text=FOX,
        reference="short",
        reference_text="This was said before.",
        non_streaming=False,
    ),
    Case(
        id="base-0.6b-shorter-whole",
        checkpoint="base-0.6b",
        text=HELLO,
        reference="odd",
        reference_text="Said.",
        non_streaming=True,
    ),
)


# Asked of the whole way from a request to its audio: what reaches the model is what was asked.
SPOKEN_TEXTS: dict[str, str] = {
    "chinese": "你好。世界很大。我们走吧！",
    "japanese": "こんにちは。今日はいい天気ですね！では、行きましょう。",
    "newlines": "One line.\nAnother line.\n\nA paragraph.  Two spaces.",
    "mixed": "Hello, 世界！It is 5 o'clock. こんにちは。Привет, мир! ¿Qué tal?",
    "around": " \n Hello there. Goodbye. \n",
}
SPOKEN_CASES: tuple[Case, ...] = tuple(
    Case(
        id=f"spoken-{name}-{'whole' if non_streaming else 'streamed'}",
        checkpoint="custom",
        text=text,
        speaker="vivian",
        non_streaming=non_streaming,
        max_new_tokens=25,
    )
    for name, text in SPOKEN_TEXTS.items()
    for non_streaming in (True, False)
)

# Asked of the official package anew in each run of the tests, one a task: nothing is recorded.
LIVE_CHECKPOINTS: dict[str, tuple[str, str, int]] = {
    "live-custom": ("tiny", "custom_voice", 21),
    "live-design": ("tiny", "voice_design", 22),
    "live-base": ("tiny-0.6b", "base", 23),
}
LIVE_CASES: tuple[Case, ...] = (
    Case(
        id="live-custom",
        checkpoint="live-custom",
        text="Neun Uhr; wir gehen jetzt.",
        language="German",
        speaker="vivian",
        instructions="Whisper.",
        non_streaming=False,
    ),
    Case(
        id="live-design",
        checkpoint="live-design",
        text="It was 5 o'clock, and nobody had come.",
        instructions="An old man, tired and kind.",
        non_streaming=True,
    ),
    Case(
        id="live-base",
        checkpoint="live-base",
        text="Now I say something else.",
        language="English",
        reference="odd",
        reference_text="I said this before.",
        non_streaming=False,
    ),
)


def reference_audio(name: str) -> NDArray[np.float32]:
    """Make a voice-like sound at 24 kHz: a gliding buzz in syllables, and breath.

    It is computed in whole numbers up to the last division, so that it is the same everywhere.
    """
    num_samples = int(REFERENCES[name] * SAMPLE_RATE_HZ)
    time = np.arange(num_samples, dtype=np.int64)
    pitch_hz = 110 + len(name) * 10 + _triangle(time, 13_001) // 900
    phase = np.cumsum(pitch_hz) % SAMPLE_RATE_HZ  # one turn is the sample rate
    buzz = _triangle(phase, SAMPLE_RATE_HZ) + _triangle(phase * 5, SAMPLE_RATE_HZ) // 2
    breath = (np.random.PCG64(7).random_raw(num_samples) >> np.uint64(51)).astype(np.int64)
    loudness = 4_000 + _triangle(time, 5_003) // 2
    samples = (buzz * loudness // 65_536 + breath - 4_096) // 2
    return samples.astype(np.float32) / np.float32(32_768)


def _triangle(time: NDArray[np.int64], period: int) -> NDArray[np.int64]:
    turns = (time % period) * 65_536 // period
    return np.abs(turns - 32_768) - 16_384


def decoder_codes() -> NDArray[np.int64]:
    """Return codes ``[120, 16]``, longer than the decoder's window, that mean nothing."""
    words = np.random.PCG64(11).random_raw(120 * 16)
    return (words % np.uint64(2048)).astype(np.int64).reshape(120, 16)
