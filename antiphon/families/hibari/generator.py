"""Phonemes to audio: one network run per sentence, whose silence is trimmed, then growing chunks.

A network's file is a protocol buffer; two of them, one behind the other, are read as one. So a few
bytes that name an output, put behind the file, add that output to the network: durations.
"""

from collections.abc import Generator, Iterator

import numpy as np
from numpy.typing import NDArray

from antiphon.contracts.family import LoadContext
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import AudioChunk, WordTime
from antiphon.errors import EngineError
from antiphon.families.hibari.vocoder import (
    FRAME_SAMPLES,
    MIN_VOICED_HZ,
    SAMPLE_RATE_HZ,
    WINDOW_SAMPLES,
    AcousticFrames,
    StreamingVocoder,
)
from antiphon.families.hibari.voices import installed_voices
from antiphon.families.kit.formats.onnx_session import onnx_session
from antiphon.text.phoneme_prompt import PhonemePrompt, SentencePauses
from antiphon.text.word_times import word_times

_FIRST_CHUNK_FRAMES = 16  # 200 ms
_MAX_CHUNK_FRAMES = 80  # 1 s
_SILENCE_FRAMES = 8  # 100 ms for a text with nothing to pronounce: no stream is empty
_FRAME_S = FRAME_SAMPLES / SAMPLE_RATE_HZ
_PAD_ID = 0
_NUM_FRAME_OUTPUTS = 6
_WARM_UP_IDS = tuple(range(43, 103))  # Any will do: about as many as a sentence has.
PAUSES = SentencePauses(frame_ms=12.5)
_AUDIBLE_DBFS = -60.0
_WINDOW_ENERGY = WINDOW_SAMPLES * 3 / 8  # of a Hann window
# A voiced frame has energy around its harmonics only, about this part of its bins.
_HARMONIC_FILL = 0.15
_DURATIONS = b"/Clip_output_0"
_MODEL_GRAPH, _GRAPH_OUTPUT, _VALUE_NAME = 7, 12, 1


class HibariGenerator:
    """Speaks in all installed voices; any number of threads may generate at the same time."""

    def __init__(self, context: LoadContext) -> None:
        """Load and warm up every installed voice (always on the CPU, in float32)."""
        self._networks = {
            name: onnx_session(with_durations(installed.network.read_bytes()))
            for name, installed in installed_voices().items()
        }
        for name in self._networks:
            warm_up = PhonemePrompt(name, (_WARM_UP_IDS,))
            for _ in self.generate(Prompt(data=warm_up, num_tokens=0, seed=0)):
                pass

    def generate(self, prompt: Prompt) -> Generator[AudioChunk, None, None]:
        """Yield 200 ms first, then up to 1 s at a time; a chunk ends where its sentence does.

        Raises:
            EngineError: the prompt's voice is not loaded here.
        """
        spoken = prompt.data
        assert isinstance(spoken, PhonemePrompt)
        if not spoken.sentences:
            silence = np.zeros(_SILENCE_FRAMES * FRAME_SAMPLES, np.float32)
            yield AudioChunk(silence, SAMPLE_RATE_HZ, _SILENCE_FRAMES)
        sizes = _chunk_sizes()
        start_s = 0.0
        for index, ids in enumerate(spoken.sentences):
            predicted, durations = self._predict(spoken.voice, ids)
            span = natural_span(predicted, spoken.frames_after(index, PAUSES))
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


def natural_span(frames: AcousticFrames, num_after: int = PAUSES.pause_frames) -> tuple[int, int]:
    """Return the first frame and the end of the audible span, with natural silence around it.

    Both may be outside of the frames: silence is missing there.

    Args:
        frames: one sentence.
        num_after: frames of silence after it.
    """
    (audible,) = np.nonzero(level_dbfs(frames) > _AUDIBLE_DBFS)
    if len(audible) == 0:
        return 0, frames.num_frames
    return int(audible[0]) - PAUSES.lead_frames, int(audible[-1]) + 1 + num_after


def level_dbfs(frames: AcousticFrames) -> NDArray[np.float32]:
    """Estimate each frame's loudness (root mean square) from its spectrum, ``[num_frames]``."""
    voiced = frames.f0_hz > MIN_VOICED_HZ
    power = np.where(voiced, _power(frames.harmonic) * np.float32(_HARMONIC_FILL), 0)
    # Z has a power of 2 per bin, and noise that differs from frame to frame cancels to a quarter.
    power += _power(frames.noise) / 2 + _power(frames.residual)
    mean_square = power * np.float32(2 / (WINDOW_SAMPLES * _WINDOW_ENERGY))
    return 10 * np.log10(np.maximum(mean_square, np.float32(1e-20)))


def _power(log_magnitude: NDArray[np.float32]) -> NDArray[np.float32]:
    power: NDArray[np.float32] = np.exp(2 * log_magnitude).sum(axis=0)
    return power


def with_durations(network: bytes) -> bytes:
    """Return a network's file with durations as its last output, if the network knows them."""
    if _DURATIONS not in network:
        return network
    name = _field(_VALUE_NAME, _DURATIONS)
    return network + _field(_MODEL_GRAPH, _field(_GRAPH_OUTPUT, name))


def _field(number: int, content: bytes) -> bytes:
    assert len(content) < 128, "its length is one byte"
    return bytes([number << 3 | 2, len(content)]) + content
