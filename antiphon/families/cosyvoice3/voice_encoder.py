"""Encoder stage: speaker vector, speech tokens and mel frames of reference audio.

The mel spectrograms are the inputs of the networks, and that of the decoder.
"""

from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from antiphon.audio.resample import resampled
from antiphon.contracts.family import LoadContext
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import Latents, Samples
from antiphon.errors import EngineError, ModelLoadError
from antiphon.families.cosyvoice3.config import (
    MEL_FRAMES_PER_TOKEN,
    SPEAKER_NETWORK,
    TOKEN_NETWORK,
    load_config,
)
from antiphon.families.kit.cloned_voices import (
    CODES,
    FEATURES,
    SPEAKER,
    Recording,
    RecordingLimits,
    warm_up_samples,
)
from antiphon.families.kit.formats.onnx_session import ONNX_ERRORS, onnx_session
from antiphon.nn.mel import log_mel, mel_filters

Network: TypeAlias = Callable[..., NDArray[Any]]
"""Function from the inputs of a network, with a batch of one recording, to its only output."""

_NUM_THREADS = 2
_MELS_A_TOKEN = 4
_MIN_RECORDING_S, _MAX_RECORDING_S = 0.5, 30.0
PARTS = (SPEAKER, CODES, FEATURES)
SPEECH_RATE_HZ = 16_000
WHISPER_MELS, SPEAKER_MELS = 128, 80
_WHISPER_FFT, _WHISPER_HOP, _WHISPER_RANGE = 400, 160, 8.0
_FBANK_FRAME, _FBANK_HOP, _FBANK_FFT, _FBANK_LOWEST_HZ = 400, 160, 512, 20.0
_PREEMPHASIS, _POVEY_POWER = 0.97, 0.85
_DECODER_FFT, _DECODER_HOP = 1920, 480


class CosyVoice3VoiceEncoder:
    """A `StageGenerator`; safe for threads. The networks run on the CPU, as published."""

    def __init__(self, context: LoadContext) -> None:
        """Load and warm up the networks; raises ModelLoadError if they cannot be loaded."""
        self._config = load_config(context.checkpoint)
        if context.is_dummy:
            networks: tuple[Network, ...] = (self._drawn_speaker, _loudest_bands)
        else:
            files = ((SPEAKER_NETWORK, 1), (TOKEN_NETWORK, 2))
            networks = tuple(_network(context.checkpoint / name, size) for name, size in files)
        self._speaker, self._tokens = networks
        rate_hz = self._config.sample_rate_hz
        self._limits = RecordingLimits(rate_hz, _MAX_RECORDING_S, _MIN_RECORDING_S)
        self.encode(Recording(warm_up_samples(rate_hz), PARTS))

    def generate(self, prompt: Prompt) -> Generator[Latents, None, None]:
        """Yield the features of the prompt's `Recording`; see `encode`."""
        yield self.encode(prompt.data)

    def encode(self, recording: Recording) -> Latents:
        """Return all features of a recording, including those that were not requested.

        The speaker vector is float32 ``[speaker_size]``; tokens are int64 ``[num_tokens, 1]``, 25
        per second; mel frames are float32 ``[2 * num_tokens, num_mels]``, 50 per second.

        Raises:
            InvalidRequestError: the recording is too short or too long.
            EngineError: the output of a network has the wrong shape or values.
        """
        self._limits.check(recording)
        config, samples = self._config, recording.samples
        speech = resampled(samples, config.sample_rate_hz, SPEECH_RATE_HZ)
        speaker, tokens = self._speaker_of(speech), self._tokens_of(speech)
        mel = decoder_mel(samples, config.flow.num_mels, config.sample_rate_hz)
        num_tokens = min(len(tokens), len(mel) // MEL_FRAMES_PER_TOKEN)
        frames = mel[: MEL_FRAMES_PER_TOKEN * num_tokens]
        return Latents({SPEAKER: speaker, CODES: tokens[:num_tokens, None], FEATURES: frames})

    def close(self) -> None:
        """Do nothing: all memory is freed with the object."""

    def _speaker_of(self, speech: Samples) -> NDArray[np.float32]:
        vector = self._speaker(speaker_fbank(speech)[None])
        speaker = vector.reshape(-1).astype(np.float32)
        if speaker.shape != (self._config.flow.speaker_size,) or not np.isfinite(speaker).all():
            raise EngineError(f"{SPEAKER_NETWORK} gave no speaker vector of the checkpoint's size.")
        return speaker

    def _tokens_of(self, speech: Samples) -> NDArray[np.int64]:
        mel = whisper_mel(speech)
        found = self._tokens(mel[None], np.array([mel.shape[1]], np.int32))
        tokens = found.reshape(-1).astype(np.int64)
        if not tokens.size or tokens.min() < 0 or tokens.max() >= self._config.num_tokens:
            raise EngineError(f"{TOKEN_NETWORK} gave tokens that the checkpoint does not have.")
        return tokens

    def _drawn_speaker(self, fbank: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return a random projection of band energies, in place of the network's vector."""
        size = (SPEAKER_MELS, self._config.flow.speaker_size)
        mix = np.random.default_rng(0).standard_normal(size, np.float32)
        vector: NDArray[np.float32] = np.abs(fbank).mean(axis=1) @ mix
        return vector


def _network(file: Path, num_inputs: int) -> Network:
    """Load a network of ``num_inputs`` into ONNX Runtime; raises ModelLoadError."""
    try:
        session = onnx_session(file, _NUM_THREADS)
    except ONNX_ERRORS as error:
        raise ModelLoadError(f"{file}: cannot be loaded: {error}") from error
    names = [each.name for each in session.get_inputs()]
    if len(names) != num_inputs:
        raise ModelLoadError(f"{file}: has {len(names)} inputs instead of {num_inputs}")

    def run(*inputs: NDArray[Any]) -> NDArray[Any]:
        try:
            outputs: list[NDArray[Any]] = session.run(None, dict(zip(names, inputs, strict=True)))
        except ONNX_ERRORS as error:
            raise EngineError(f"An encoder of recordings failed: {error}") from error
        return outputs[0]

    return run


def _loudest_bands(mel: NDArray[np.float32], _: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return the number of the loudest band every 40 ms, in place of the network's tokens."""
    bands: NDArray[np.int64] = mel[0, :, ::_MELS_A_TOKEN].argmax(axis=0)
    return bands


def whisper_mel(samples: Samples) -> NDArray[np.float32]:
    """Return Whisper's log-mel spectrogram, ``[128, num_samples // 160]``, of audio at 16 kHz.

    It needs more than 200 samples.
    """
    window = torch.hann_window(_WHISPER_FFT)
    spectrum = torch.stft(
        torch.tensor(samples), _WHISPER_FFT, _WHISPER_HOP, window=window, return_complex=True
    )
    power = spectrum[:, :-1].abs().square()
    filters = torch.from_numpy(mel_filters(WHISPER_MELS, SPEECH_RATE_HZ, _WHISPER_FFT))
    logs = (filters @ power).clamp(min=1e-10).log10()
    logs = torch.maximum(logs, logs.max() - _WHISPER_RANGE)
    scaled: NDArray[np.float32] = ((logs + 4.0) / 4.0).numpy()
    return scaled


def speaker_fbank(samples: Samples) -> NDArray[np.float32]:
    """Return Kaldi's log filter banks minus their mean over time, ``[num_frames, 80]``.

    They are of at least 400 samples at 16 kHz.
    """
    frames = np.lib.stride_tricks.sliding_window_view(samples, _FBANK_FRAME)[::_FBANK_HOP]
    frames = frames.astype(np.float32) - frames.mean(axis=1, keepdims=True)
    before = np.concatenate((frames[:, :1], frames[:, :-1]), axis=1)
    frames = frames - np.float32(_PREEMPHASIS) * before
    povey = np.hanning(_FBANK_FRAME) ** _POVEY_POWER
    spectrum = np.fft.rfft(frames * povey.astype(np.float32), _FBANK_FFT)
    power = np.square(np.abs(spectrum)).astype(np.float32)
    banks = power[:, :-1] @ _kaldi_filters().T
    logs = np.log(np.maximum(banks, np.finfo(np.float32).eps))
    normed: NDArray[np.float32] = (logs - logs.mean(axis=0, keepdims=True)).astype(np.float32)
    return normed


def decoder_mel(samples: Samples, num_mels: int, sample_rate_hz: int) -> NDArray[np.float32]:
    """Return the log-mel spectrogram predicted by the flow, ``[num_samples // 480, num_mels]``.

    It needs more than 720 samples.
    """
    how = {"fft_size": _DECODER_FFT, "hop_samples": _DECODER_HOP}
    made = log_mel(torch.tensor(samples), num_mels, sample_rate_hz, **how)
    frames: NDArray[np.float32] = made.numpy()
    return frames


def _kaldi_filters() -> NDArray[np.float32]:
    """Return triangular filters that are symmetric on Kaldi's mel scale, ``[80, 256]``."""
    lowest, highest = _kaldi_mel(np.array([_FBANK_LOWEST_HZ, SPEECH_RATE_HZ / 2]))
    corners = np.linspace(lowest, highest, SPEAKER_MELS + 2)
    bins = _kaldi_mel(np.arange(_FBANK_FFT // 2, dtype=np.float64) * (SPEECH_RATE_HZ / _FBANK_FFT))
    left, center, right = (each[:, None] for each in (corners[:-2], corners[1:-1], corners[2:]))
    rising, falling = (bins - left) / (center - left), (right - bins) / (right - center)
    filters: NDArray[np.float32] = np.maximum(0, np.minimum(rising, falling)).astype(np.float32)
    return filters


def _kaldi_mel(hz: NDArray[np.float64]) -> NDArray[np.float64]:
    mels: NDArray[np.float64] = 1127.0 * np.log1p(hz / 700.0)
    return mels
