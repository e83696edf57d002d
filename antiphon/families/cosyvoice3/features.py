"""Input features of the voice encoder, and the mel spectrogram of the decoder."""

import numpy as np
import torch
from numpy.typing import NDArray

from antiphon.contracts.types import Samples
from antiphon.nn.mel import log_mel, mel_filters

SPEECH_RATE_HZ = 16_000
WHISPER_MELS, SPEAKER_MELS = 128, 80

_WHISPER_FFT, _WHISPER_HOP, _WHISPER_RANGE = 400, 160, 8.0
_FBANK_FRAME, _FBANK_HOP, _FBANK_FFT, _FBANK_LOWEST_HZ = 400, 160, 512, 20.0
_PREEMPHASIS, _POVEY_POWER = 0.97, 0.85
_DECODER_FFT, _DECODER_HOP = 1920, 480


def whisper_mel(samples: Samples) -> NDArray[np.float32]:
    """Return Whisper's log-mel spectrogram, ``[128, num_samples // 160]``.

    Args:
        samples: audio at 16 kHz; more than 200 samples.
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

    Args:
        samples: audio at 16 kHz; at least 400 samples.
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

    Args:
        samples: audio at ``sample_rate_hz``; more than 720 samples.
        num_mels: mel bands.
        sample_rate_hz: sample rate of the model.
    """
    made = log_mel(
        torch.tensor(samples),
        num_mels,
        sample_rate_hz,
        fft_size=_DECODER_FFT,
        hop_samples=_DECODER_HOP,
    )
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
