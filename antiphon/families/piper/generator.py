"""Symbols to audio: sentence by sentence, and within a sentence chunk by chunk."""

from collections.abc import Generator, Iterator

import numpy as np

from antiphon.audio.joining import num_quiet_after
from antiphon.contracts.family import LoadContext
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import AudioChunk, Samples, WordTime
from antiphon.errors import EngineError, ModelLoadError
from antiphon.families.kit.formats.onnx_session import ONNX_ERRORS
from antiphon.families.piper.network import PiperNetwork, SpokenSentence
from antiphon.families.piper.phonemes import SymbolSequence
from antiphon.families.piper.prompt import PiperPrompt
from antiphon.families.piper.voice_files import PiperModel, read_models

_FIRST_CHUNK_S = 0.4
_MAX_CHUNK_S = 1.6
_SILENCE_S = 0.1  # for a text with nothing to pronounce: no stream is empty
_WARM_UP_SYMBOLS = 40


class PiperGenerator:
    """Speaks with all voices of a directory; any number of threads may generate at a time."""

    def __init__(self, context: LoadContext) -> None:
        """Load and warm up every network, on the CPU in float32; raises ModelLoadError."""
        models = read_models(context.checkpoint)
        self._rates = {model.name: model.sample_rate_hz for model in models}
        self._networks: dict[str, PiperNetwork] = {}
        for model in models:
            network = PiperNetwork(model.network, has_speakers=bool(model.speakers))
            self._networks[model.name] = network
            try:
                for _ in self.generate(_warm_up(model)):
                    pass
            except ONNX_ERRORS as error:
                raise ModelLoadError(f"{model.network}: cannot be run: {error}") from error

    def generate(self, prompt: Prompt) -> Generator[AudioChunk, None, None]:
        """Yield 0.4 s first, then up to 1.6 s at a time; a chunk ends where its sentence does.

        A network whose decoder cannot be run in parts gives a sentence at a time.

        Raises:
            EngineError: the prompt's network is not loaded here.
        """
        spoken = prompt.data
        assert isinstance(spoken, PiperPrompt)
        network = self._networks.get(spoken.model)
        if network is None:
            raise EngineError(f"The voice '{spoken.model}' is not loaded.")
        rate_hz = self._rates[spoken.model]
        if not spoken.sentences:
            silence = np.zeros(round(_SILENCE_S * rate_hz), np.float32)
            yield AudioChunk(silence, rate_hz, 1)
        scales = spoken.scales
        given = (scales.noise_scale, scales.length_scale, scales.noise_w)
        sizes = _chunk_sizes(rate_hz / (network.samples_per_frame or 1))
        num_samples = num_quiet = 0
        for number, sentence in enumerate(spoken.sentences):
            random = np.random.default_rng([prompt.seed % 2**64, number])
            prepared = network.prepare(sentence.ids, given, spoken.speaker, random)
            pause = np.zeros(0, np.float32)
            if number and spoken.pause_ms is not None:
                num_missing = round(spoken.pause_ms * rate_hz / 1000) - num_quiet
                pause = np.zeros(max(0, num_missing), np.float32)
                num_samples += len(pause)
            begins_s: float | None = num_samples / rate_hz
            for samples, num_frames, total in _decoded(network, prepared, sizes):
                words: tuple[WordTime, ...] = ()
                if spoken.tells_times and begins_s is not None:
                    words = _word_times(sentence, prepared, total / rate_hz, begins_s)
                    begins_s = None
                num_samples += len(samples)
                num_quiet = num_quiet_after(samples, num_quiet)
                yield AudioChunk(np.concatenate([pause, samples]), rate_hz, num_frames, words)
                pause = pause[:0]

    def close(self) -> None:
        self._networks.clear()


def _decoded(
    network: PiperNetwork, sentence: SpokenSentence, sizes: Iterator[int]
) -> Iterator[tuple[Samples, int, int]]:
    """Yield a sentence's samples in chunks, their frames, and the samples of the whole sentence."""
    if network.samples_per_frame is None:
        samples = network.decode_whole(sentence)
        yield samples, 1, len(samples)
        return
    start = 0
    while start < sentence.num_frames:
        stop = min(sentence.num_frames, start + next(sizes))
        total = sentence.num_frames * network.samples_per_frame
        yield network.decode(sentence, start, stop), stop - start, total
        start = stop


def _word_times(
    sentence: SymbolSequence, prepared: SpokenSentence, length_s: float, begins_s: float
) -> tuple[WordTime, ...]:
    """Return when the words of a sentence are spoken, by how long its symbols last."""
    durations = prepared.durations
    ends_s = np.concatenate([[0.0], np.cumsum(durations)]) * (length_s / max(1, durations.sum()))
    return tuple(
        word.timed(begins_s + float(ends_s[word.start]), begins_s + float(ends_s[word.stop]))
        for word in sentence.words
    )


def _chunk_sizes(frames_per_s: float) -> Iterator[int]:
    """Yield numbers of frames: small ones first, for a short time to first audio."""
    size_s = _FIRST_CHUNK_S
    while True:
        yield max(1, round(size_s * frames_per_s))
        size_s = min(2 * size_s, _MAX_CHUNK_S)


def _warm_up(model: PiperModel) -> Prompt:
    """Return about as many symbols as a sentence has, the last known one among them."""
    known = sorted((number for each in model.ids.values() for number in each), reverse=True)
    ids = tuple(known[place % len(known)] for place in range(_WARM_UP_SYMBOLS))
    speaker = next(iter(model.voices.values()))
    data = PiperPrompt(model.name, speaker, (SymbolSequence(ids),), model.scales)
    return Prompt(data=data, num_tokens=0, seed=0)
