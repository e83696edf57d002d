"""Speaker embeddings by the network of Resemblyzer (GE2E, Wan et al. 2018).

The package brings its weights, and that is all that is read of it. Its own code would need
webrtcvad (which pip compiles), librosa and SciPy; its network is an LSTM, and its spectrogram the
one of `antiphon.nn.mel`. Silence is left out by loudness here, by a detector of voices there.
"""

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import soxr
import torch
from numpy.typing import NDArray

from antiphon.errors import SettingsError
from antiphon.families.kit.formats.torch_file import read_torch_file
from antiphon.nn.mel import mel_filters
from antiphon_bench.quality.defects import frame_levels
from antiphon_bench.seams import Signal

SAME_SPEAKER = 0.82
"""Of synthetic voices: one voice is above it with itself, and different voices are below."""
_RATE_HZ = 16_000
_WINDOW, _HOP, _NUM_MELS = 400, 160, 40
_WIDTH, _LAYERS = 256, 3
_PART_FRAMES = 160
_PART_STEP = 77
"""1.3 parts of 1.6 s begin each second."""
_LEVEL = 10 ** (-30 / 20)
_QUIET = 0.1
_SILENCE_FRAMES_S = 0.030
_KEPT_SILENCE = 6
INSTALL = "pip install --no-deps resemblyzer==0.1.4"


class SpeakerVectors:
    """Turns speech into a vector of length 1; that of one speaker lies close to each other."""

    def __init__(self) -> None:
        """Load the weights; raises SettingsError if the package is not there."""
        self._lstm, self._linear = _network()

    def embed(self, signal: Signal, rate_hz: int) -> NDArray[np.float64]:
        """Return the vector of a recording, shape ``[256]``."""
        samples = soxr.resample(signal, rate_hz, _RATE_HZ)
        samples = without_silence(samples * max(1.0, _LEVEL / max(1e-9, _rms(samples))))
        missing = (_PART_FRAMES + 1) * _HOP - len(samples)
        mels = spectrogram(np.pad(samples, (0, max(0, missing))))
        starts = range(0, max(1, len(mels) - _PART_FRAMES + 1), _PART_STEP)
        parts = torch.stack([mels[start : start + _PART_FRAMES] for start in starts])
        with torch.inference_mode():
            _, (hidden, _) = self._lstm(parts)
            vectors = torch.relu(self._linear(hidden[-1]))
            vectors = vectors / vectors.norm(dim=1, keepdim=True)
        mean = vectors.mean(dim=0).double().numpy()
        return np.asarray(mean / np.linalg.norm(mean))


def similarity(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """Return the cosine between two speakers: 1 if they are one."""
    return float(first @ second / np.linalg.norm(first) / np.linalg.norm(second))


def spectrogram(samples: Signal) -> torch.Tensor:
    """Return the power of 40 mel bands, shape ``[num_frames, 40]``, of samples at 16 kHz."""
    spectrum = torch.stft(
        torch.from_numpy(samples.astype(np.float32)),
        _WINDOW,
        _HOP,
        window=torch.hann_window(_WINDOW),
        pad_mode="constant",
        return_complex=True,
    )
    filters = torch.from_numpy(mel_filters(_NUM_MELS, _RATE_HZ, _WINDOW))
    return (filters @ spectrum.abs().square()).T


def without_silence(samples: Signal) -> Signal:
    """Remove parts much quieter than speech, except short pauses."""
    size = round(_SILENCE_FRAMES_S * _RATE_HZ)
    levels = frame_levels(samples, _RATE_HZ, _SILENCE_FRAMES_S)
    if not len(levels):
        return samples
    is_loud = levels > _QUIET * np.percentile(levels, 90)
    kept = np.convolve(is_loud, np.ones(_KEPT_SILENCE + 1), "same") > 0
    found: Signal = samples[: len(levels) * size][np.repeat(kept, size)]
    return found


def _rms(samples: Signal) -> float:
    return float(np.sqrt(np.mean(samples**2)))


@cache
def _network() -> tuple[Any, Any]:
    spec = find_spec("resemblyzer")
    if spec is None or spec.origin is None:
        raise SettingsError(f"Telling speakers apart needs: {INSTALL}")
    found = read_torch_file(Path(spec.origin).parent / "pretrained.pt")
    lstm = torch.nn.LSTM(_NUM_MELS, _WIDTH, _LAYERS, batch_first=True)
    linear = torch.nn.Linear(_WIDTH, _WIDTH)
    for name, module in (("lstm.", lstm), ("linear.", linear)):
        state = found["model_state"].items()
        module.load_state_dict(
            {key.removeprefix(name): value for key, value in state if key.startswith(name)}
        )
    return lstm.eval(), linear.eval()
