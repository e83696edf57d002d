"""The vocoder's source: tones at the pitch in voiced frames, noise in unvoiced ones.

As in training, a tone's phase is constant within a mel frame and advances by one frame length
between frames. Noise is uniform from 0 to 1 and the same for every stream: it depends only on the
frame number.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from antiphon.families.cosyvoice3.config import VocoderConfig
from antiphon.families.cosyvoice3.stream_conv import StreamState
from antiphon.nn.layers import Linear, Weights
from antiphon.nn.sampler import uniform_noise

_TURNS = "source.turns"
_NOISE_SEED = 3


@dataclass(frozen=True, slots=True)
class ToneSource:
    """Source signal from pitches.

    Attributes:
        mix: projection of the tones to one signal.
    """

    config: VocoderConfig
    mix: Linear

    @classmethod
    def of(cls, weights: Weights, config: VocoderConfig) -> "ToneSource":
        return cls(config, Linear.of(weights, "m_source.l_linear"))

    def __call__(self, pitch_hz: Tensor, noise: Tensor, state: StreamState) -> Tensor:
        """Return the samples of the next mel frames of each row.

        Args:
            pitch_hz: pitch, f32 ``[num_rows, num_frames]``.
            noise: noise from `source_noise`.
            state: state of the streams; updated.

        Returns:
            f32 ``[num_rows, num_frames * samples_per_mel_frame]``.
        """
        config = self.config
        num_tones = config.num_overtones + 1
        multiples = torch.arange(1, num_tones + 1, device=pitch_hz.device)
        turns = (pitch_hz[:, :, None] * multiples / config.sample_rate_hz) % 1  # a sample
        turns = turns.double() * config.samples_per_mel_frame
        before = state.kept.get(_TURNS)
        if before is None:
            before = turns.new_zeros(len(turns), 1, num_tones)
        phases = (before + turns.cumsum(1)) % 1
        state.kept[_TURNS] = phases[:, -1:].clone() if phases.shape[1] else before
        is_voiced = (pitch_hz > config.min_voiced_hz)[:, :, None]
        tones = torch.sin(phases * (2 * math.pi)).float() * config.sine_level
        level = torch.where(is_voiced, config.voiced_noise, config.sine_level / 3)
        mixed = torch.where(is_voiced, tones, 0.0)[..., None] + level[..., None] * noise
        return torch.tanh(self.mix(mixed.transpose(2, 3))).flatten(1)


def source_noise(first_frames: Tensor, num_frames: int, config: VocoderConfig) -> Tensor:
    """Return the noise of ``num_frames`` mel frames, starting at each of ``first_frames``.

    Args:
        first_frames: frame numbers, int64 ``[num_rows]``.
        num_frames: mel frames per row.
        config: configuration of the vocoder.

    Returns:
        f32 ``[num_rows, num_frames, num_tones, samples_per_mel_frame]``.
    """
    device = first_frames.device
    frames = (first_frames[:, None] + torch.arange(num_frames, device=device)).flatten()
    seeds = torch.full((len(frames), 2), _NOISE_SEED, device=device)
    tones = torch.arange(config.num_overtones + 1, device=device)
    noise = uniform_noise(seeds, frames, tones, config.samples_per_mel_frame)
    return noise.view(len(first_frames), num_frames, *noise.shape[1:])
