"""The vocoder's source: tones of the pitch where there is a voice, noise where there is none.

As the model was trained, a tone's phase stands still within a mel frame, and moves on by a frame's
length between frames. Noise is uniform from 0 to 1, the same for every stream: a function of the
frame's number.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from antiphon.models.cosyvoice3.config import VocoderConfig
from antiphon.nn.layers import Linear, Weights
from antiphon.nn.sampler import uniform_noise
from antiphon.nn.stream_conv import StreamState

_TURNS = "source.turns"
_NOISE_SEED = 3


@dataclass(frozen=True, slots=True)
class ToneSource:
    """Makes samples of pitches.

    Attributes:
        mix: of the tones, to one signal.
    """

    config: VocoderConfig
    mix: Linear

    @classmethod
    def of(cls, weights: Weights, config: VocoderConfig) -> "ToneSource":
        return cls(config, Linear.of(weights, "m_source.l_linear"))

    def __call__(self, pitch_hz: Tensor, noise: Tensor, state: StreamState) -> Tensor:
        """Return the samples of the next mel frames.

        Args:
            pitch_hz: f32 ``[num_frames]``.
            noise: of `source_noise`.
            state: of the stream.

        Returns:
            f32 ``[num_frames * samples_per_mel_frame]``.
        """
        config = self.config
        num_tones = config.num_overtones + 1
        multiples = torch.arange(1, num_tones + 1, device=pitch_hz.device)
        turns = (pitch_hz[:, None] * multiples / config.sample_rate_hz) % 1  # a sample
        turns = turns.double() * config.samples_per_mel_frame
        before = state.kept.get(_TURNS, turns.new_zeros(1, num_tones))
        phases = (before + turns.cumsum(0)) % 1
        if len(phases):
            state.kept[_TURNS] = phases[-1:].clone()
        is_voiced = (pitch_hz > config.min_voiced_hz)[:, None]
        tones = torch.sin(phases * (2 * math.pi)).float() * config.sine_level
        level = torch.where(is_voiced, config.voiced_noise, config.sine_level / 3)
        mixed = torch.where(is_voiced, tones, 0.0)[:, :, None] + level[:, :, None] * noise
        return torch.tanh(self.mix(mixed.transpose(1, 2))).flatten()


def source_noise(first_frame: int, num_frames: int, config: VocoderConfig, like: Tensor) -> Tensor:
    """Return the noise of mel frames, f32 ``[num_frames, num_tones, samples_per_mel_frame]``."""
    frames = torch.arange(first_frame, first_frame + num_frames, device=like.device)
    seeds = torch.full((num_frames, 2), _NOISE_SEED, device=like.device)
    tones = torch.arange(config.num_overtones + 1, device=like.device)
    return uniform_noise(seeds, frames, tones, config.samples_per_mel_frame)
