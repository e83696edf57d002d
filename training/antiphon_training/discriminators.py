"""Discriminators: of samples folded by a period (HiFi-GAN), and of complex spectra (DAC)."""

import itertools

import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor, nn

from antiphon_training.losses import spectrum

_PERIODS = (2, 3, 5, 7, 11)
_WINDOWS = (2048, 1024, 512)
_SLOPE = 0.1


class _Network(nn.Module):
    """Convolutions of images; every activation is a feature, the last output the score."""

    def __init__(self, layers: list[nn.Conv2d], width: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.score = nn.Conv2d(width, 1, (3, 1), padding=(1, 0))

    def forward(self, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        features = []
        for layer in self.layers:
            x = F.leaky_relu(layer(x), _SLOPE)
            features.append(x)
        return self.score(x), features


class PeriodDiscriminator(_Network):
    def __init__(self, period: int, width: int) -> None:
        widths = (1, width, 4 * width, 16 * width, 32 * width)
        layers = [
            nn.Conv2d(num_in, num_out, (5, 1), (3, 1), padding=(2, 0))
            for num_in, num_out in itertools.pairwise(widths)
        ]
        last = nn.Conv2d(widths[-1], widths[-1], (5, 1), padding=(2, 0))
        super().__init__([*layers, last], widths[-1])
        self._period = period

    def forward(self, samples: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Judge ``[B, t]``."""
        padded = F.pad(samples, (0, -samples.shape[1] % self._period))
        return super().forward(torch.unflatten(padded, 1, (-1, self._period))[:, None])


class SpectrumDiscriminator(_Network):
    def __init__(self, window_samples: int, width: int) -> None:
        def conv(num_in: int, stride: int, taps: int = 9) -> nn.Conv2d:
            return nn.Conv2d(num_in, width, (3, taps), (1, stride), padding=(1, taps // 2))

        super().__init__(
            [conv(2, 2), conv(width, 2), conv(width, 2), conv(width, 2), conv(width, 1, 3)], width
        )
        self._window_samples = window_samples

    def forward(self, samples: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Judge ``[B, t]``."""
        with torch.autocast(samples.device.type, enabled=False):
            bins = spectrum(samples.float(), self._window_samples, self._window_samples // 4)
            image = torch.view_as_real(bins).permute(0, 3, 2, 1).contiguous()
        return super().forward(image)


class Discriminators(nn.Module):
    """All discriminators, of samples ``[B, t]``."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        periods = (PeriodDiscriminator(period, width) for period in _PERIODS)
        spectra = (SpectrumDiscriminator(window, 2 * width) for window in _WINDOWS)
        self.members = nn.ModuleList([*periods, *spectra])

    def forward(self, samples: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """Return the scores, and the features of all members, from samples ``[B, t]``."""
        scores, features = [], []
        for member in self.members:
            score, some = member(samples)
            scores.append(score.float())
            features += some
        return scores, features
