"""Phonemes to audio: one network run per sentence, then chunks of growing size."""

from collections.abc import Generator, Iterator

import numpy as np
from numpy.typing import NDArray

from antiphon.contracts.family import LoadContext
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import AudioChunk, WordTime
from antiphon.errors import EngineError
from antiphon.families.hibari.durations import with_durations
from antiphon.families.hibari.pauses import frames_after, natural_span
from antiphon.families.hibari.prompt import HibariPrompt
from antiphon.families.hibari.vocoder import (
    FRAME_SAMPLES,
    SAMPLE_RATE_HZ,
    AcousticFrames,
    StreamingVocoder,
)
from antiphon.families.hibari.voices import installed_voices
from antiphon.families.kit.formats.onnx_session import onnx_session
from antiphon.text.word_times import word_times

_FIRST_CHUNK_FRAMES = 16  # 200 ms
_MAX_CHUNK_FRAMES = 80  # 1 s
_SILENCE_FRAMES = 8  # 100 ms for a text with nothing to pronounce: no stream is empty
_FRAME_S = FRAME_SAMPLES / SAMPLE_RATE_HZ
_PAD_ID = 0
_NUM_FRAME_OUTPUTS = 6
_WARM_UP_IDS = tuple(range(43, 103))  # Any will do: about as many as a sentence has.


class HibariGenerator:
    """Speaks in all installed voices; any number of threads may generate at the same time."""

    def __init__(self, context: LoadContext) -> None:
        """Load and warm up every installed voice (always on the CPU, in float32)."""
        self._networks = {
            name: onnx_session(with_durations(installed.network.read_bytes()))
            for name, installed in installed_voices().items()
        }
        for name in self._networks:
            warm_up = HibariPrompt(name, (_WARM_UP_IDS,))
            for _ in self.generate(Prompt(data=warm_up, num_tokens=0, seed=0)):
                pass

    def generate(self, prompt: Prompt) -> Generator[AudioChunk, None, None]:
        """Yield 200 ms first, then up to 1 s at a time; a chunk ends where its sentence does.

        Raises:
            EngineError: the prompt's voice is not loaded here.
        """
        spoken = prompt.data
        assert isinstance(spoken, HibariPrompt)
        if not spoken.sentences:
            silence = np.zeros(_SILENCE_FRAMES * FRAME_SAMPLES, np.float32)
            yield AudioChunk(silence, SAMPLE_RATE_HZ, _SILENCE_FRAMES)
        sizes = _chunk_sizes()
        start_s = 0.0
        for index, ids in enumerate(spoken.sentences):
            predicted, durations = self._predict(spoken.voice, ids)
            is_last = index == len(spoken.sentences) - 1
            span = natural_span(predicted, frames_after(spoken.pause_ms, is_last=is_last))
            frames = predicted.cut(*span)
            words: tuple[WordTime, ...] = ()
            if spoken.words and durations is not None:
                times = word_times(
                    spoken.words[index], durations, span, predicted.num_frames, _FRAME_S
                )
                words = tuple(each.later(start_s) for each in times)
            vocoder = StreamingVocoder(frames, _noise(prompt.seed, index))
            while vocoder.num_remaining_frames:
                num_frames = min(next(sizes), vocoder.num_remaining_frames)
                yield AudioChunk(vocoder.read(num_frames), SAMPLE_RATE_HZ, num_frames, words)
                words = ()
            start_s += frames.num_frames * FRAME_SAMPLES / SAMPLE_RATE_HZ

    def close(self) -> None:
        self._networks.clear()

    def _predict(
        self, voice: str, ids: tuple[int, ...]
    ) -> tuple[AcousticFrames, NDArray[np.float32] | None]:
        """Return the frames of a sentence and, if the network has them, durations of phonemes."""
        if voice not in self._networks:
            raise EngineError(f"The voice '{voice}' is not loaded.")
        padded = np.array([[_PAD_ID, *ids, _PAD_ID]], np.int64)
        pace = np.ones(1, np.float32)
        outputs = self._networks[voice].run(None, {"ids": padded, "speed": pace})
        frames = AcousticFrames.from_network(outputs[:_NUM_FRAME_OUTPUTS])
        return frames, outputs[-1] if len(outputs) > _NUM_FRAME_OUTPUTS else None


def _noise(seed: int, sentence: int) -> np.random.Generator:
    return np.random.default_rng([seed % 2**64, sentence])


def _chunk_sizes() -> Iterator[int]:
    size = _FIRST_CHUNK_FRAMES
    while True:
        yield size
        size = min(2 * size, _MAX_CHUNK_FRAMES)
