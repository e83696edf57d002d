"""Features, pitch and loudness to samples (iSTFTNet), by short-time spectra.

Names of parameters are the checkpoint's. Shapes are ``[B, channels, length]``.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from antiphon.families.kokoro.checkpoint import SAMPLE_RATE_HZ, KokoroConfig
from antiphon.families.kokoro.padding import PaddedRows, own
from antiphon.families.kokoro.styled_layers import StyledResidual, StyledSnakeBlock

NUM_HARMONICS = 9
"""The pitch itself, and eight overtones."""

_MIN_VOICED_HZ = 10.0
_SINE_LEVEL, _VOICED_NOISE = 0.1, 0.003
_STAGE_SLOPE, _LAST_SLOPE = 0.1, 0.01
_NO_WINDOW = 1e-6


class HarmonicSource(nn.Module):
    """Sines of the pitch and its overtones where there is a voice, noise where there is none."""

    def __init__(self, upsampling: int) -> None:
        super().__init__()
        self._upsampling = upsampling
        self.l_linear = nn.Linear(NUM_HARMONICS, 1)

    def forward(self, pitch: Tensor, noise: Tensor, rows: PaddedRows | None = None) -> Tensor:
        """Return samples, ``[B, length * upsampling]``.

        Args:
            pitch: fundamental frequency in Hz, ``[B, 1, length]``.
            noise: normal numbers, ``[B, length * upsampling, NUM_HARMONICS]``.
        """
        multiples = torch.arange(1, NUM_HARMONICS + 1, device=pitch.device).view(1, -1, 1)
        turns = (pitch * multiples / SAMPLE_RATE_HZ) % 1  # a sample
        phase = torch.cumsum(turns, dim=-1) * (2 * math.pi) * self._upsampling
        if rows is not None:
            phase = rows.lengths.pad(phase, 0, 0, "replicate")  # the last one is held to its end
        phase = functional.interpolate(phase, scale_factor=float(self._upsampling), mode="linear")
        is_voiced = (pitch > _MIN_VOICED_HZ).repeat_interleave(self._upsampling, dim=-1).mT
        level = torch.where(is_voiced, _VOICED_NOISE, _SINE_LEVEL / 3)
        sines = torch.sin(phase).mT * _SINE_LEVEL
        merged = self.l_linear(torch.where(is_voiced, sines, 0.0) + level * noise)
        return torch.tanh(merged).squeeze(-1)


class SampleGenerator(nn.Module):
    """Features to a short-time spectrum, guided by the source's; its inverse is the samples."""

    def __init__(self, config: KokoroConfig) -> None:
        super().__init__()
        self._fft_size, self._hop_size = config.fft_size, config.hop_size
        self._num_blocks, self._rates = len(config.kernel_sizes), config.upsample_rates
        rates, style_size = config.upsample_rates, config.style_dim
        channels, spectrum_size = config.upsample_channels, config.fft_size + 2
        self.m_source = HarmonicSource(config.frame_upsampling)
        self.noise_convs, self.noise_res = nn.ModuleList(), nn.ModuleList()
        self.ups, self.resblocks = nn.ModuleList(), nn.ModuleList()
        stages = zip(rates, config.upsample_kernel_sizes, strict=True)
        for index, (rate, kernel) in enumerate(stages):
            size = (channels, channels // 2, kernel)
            self.ups.append(nn.ConvTranspose1d(*size, rate, (kernel - rate) // 2))
            channels //= 2
            for taps, dilations in zip(config.kernel_sizes, config.dilations, strict=True):
                self.resblocks.append(StyledSnakeBlock(channels, taps, dilations, style_size))
            is_last, later = index + 1 == len(rates), math.prod(rates[index + 1 :])
            sizes = (1,) if is_last else (2 * later, later, (later + 1) // 2)
            self.noise_convs.append(nn.Conv1d(spectrum_size, channels, *sizes))
            taps = 11 if is_last else 7
            self.noise_res.append(StyledSnakeBlock(channels, taps, (1, 3, 5), style_size))
        self.conv_post = nn.Conv1d(channels, spectrum_size, 7, padding=3)
        self.register_buffer("window", torch.hann_window(config.fft_size), persistent=False)

    def forward(
        self, x: Tensor, style: Tensor, pitch: Tensor, noise: Tensor, rows: PaddedRows | None = None
    ) -> Tensor:
        """Return samples, ``[B, length]``; ``rows`` are those of features and of the pitch."""
        stages = self._rows_of_stages(rows)
        samples = self.m_source(pitch, noise, rows)
        source_rows = rows and rows.scaled(samples.shape[1] // pitch.shape[2])
        guide = spectra(samples, self._window(), self._hop_size, source_rows)
        guide = own(guide, stages[-1])
        for index, upsample in enumerate(self.ups):
            x = upsample(functional.leaky_relu(own(x, rows), _STAGE_SLOPE))
            if index + 1 == len(self.ups):
                x = functional.pad(x, (1, 0), mode="reflect")
            rows = stages[index]
            x = x + self.noise_res[index](self.noise_convs[index](guide), style, rows)
            start = index * self._num_blocks
            blocks = self.resblocks[start : start + self._num_blocks]
            x = torch.stack([block(x, style, rows) for block in blocks]).sum(dim=0)
            x = x / self._num_blocks
        x = self.conv_post(functional.leaky_relu(own(x, rows), _LAST_SLOPE))
        magnitude, phase = own(x, rows).tensor_split(2, dim=1)
        spectrum = torch.polar(torch.exp(magnitude), torch.sin(phase))
        return signal(spectrum, self._window(), self._hop_size, rows)

    def _rows_of_stages(self, rows: PaddedRows | None) -> list[PaddedRows | None]:
        """Return whose columns are those after each stage."""
        made: list[PaddedRows | None] = []
        for rate in self._rates:
            is_last = len(made) + 1 == len(self._rates)
            rows = None if rows is None else rows.scaled(rate, more=int(is_last))
            made.append(rows)
        return made

    def reset_window(self) -> None:
        """Make what no checkpoint has, after a model was made without memory."""
        self.window = torch.hann_window(self._fft_size)

    def _window(self) -> Tensor:
        window = self.window
        assert isinstance(window, Tensor)
        return window


class KokoroDecoder(nn.Module):
    """Text features, pitch and loudness to samples."""

    def __init__(self, config: KokoroConfig, *, num_channels: int, num_skipped: int) -> None:
        """Make it.

        Args:
            num_channels: channels of the blocks before the vocoder.
            num_skipped: channels of the text that every block receives.
        """
        super().__init__()
        style_size = config.style_dim
        num_inputs = num_channels + 2 + num_skipped
        self.encode = StyledResidual(config.hidden_dim + 2, num_channels, style_size)
        self.decode = nn.ModuleList(
            [
                *(StyledResidual(num_inputs, num_channels, style_size) for _ in range(3)),
                StyledResidual(num_inputs, config.upsample_channels, style_size, doubles=True),
            ]
        )
        self.F0_conv, self.N_conv = (nn.Conv1d(1, 1, 3, 2, 1) for _ in range(2))
        self.asr_res = nn.Sequential(nn.Conv1d(config.hidden_dim, num_skipped, 1))
        self.generator = SampleGenerator(config)

    def forward(
        self,
        text: Tensor,
        pitch: Tensor,
        loudness: Tensor,
        style: Tensor,
        noise: Tensor,
        rows: PaddedRows | None = None,
    ) -> Tensor:
        """Return samples, ``[B, length]``; arguments as of `ProsodyPredictor.curves`."""
        fine = rows and rows.doubled
        pitch, loudness = own(pitch, fine), own(loudness, fine)
        curves = [self.F0_conv(pitch), self.N_conv(loudness)]
        skipped = self.asr_res(text)
        x = self.encode(torch.cat([text, *curves], dim=1), style, rows)
        for block in self.decode:
            x = block(torch.cat([x, skipped, *curves], dim=1), style, rows)
        made: Tensor = self.generator(x, style, pitch, noise, fine)
        return made


def spectra(samples: Tensor, window: Tensor, hop_size: int, rows: PaddedRows | None) -> Tensor:
    """Return magnitudes, then phases, ``[B, fft_size + 2, num_spectra]``.

    Args:
        samples: ``[B, t]``; the signal goes on mirrored at both of its ends.
        window: ``[fft_size]``.
    """
    size = len(window)
    if rows is None:
        found = torch.stft(samples, size, hop_size, window=window, return_complex=True)
    else:
        half = size // 2
        mirrored = rows.lengths.pad(samples[:, None], half, half, "reflect")[:, 0]
        found = torch.fft.rfft(mirrored.unfold(-1, size, hop_size) * window).mT
    return torch.cat([found.abs(), found.angle()], dim=1)


def signal(spectrum: Tensor, window: Tensor, hop_size: int, rows: PaddedRows | None) -> Tensor:
    """Return the samples of complex spectra, ``[B, (num_spectra - 1) * hop_size]``.

    Args:
        spectrum: ``[B, fft_size // 2 + 1, num_spectra]``.
        window: ``[fft_size]``, a multiple of ``hop_size`` and of 2.
        rows: lengths of padded rows; spectra in the padding are finite. ``None``: no padding.
    """
    size = len(window)
    if rows is None:
        return torch.istft(spectrum, size, hop_size, window=window)
    pieces = torch.fft.irfft(spectrum.mT, n=size) * window * rows.mask.mT
    windows = rows.mask.mT * window.square()
    half = size // 2
    joined, weights = (_overlapped(each, hop_size)[:, half:-half] for each in (pieces, windows))
    return joined / weights.clamp(min=_NO_WINDOW)


def _overlapped(pieces: Tensor, hop_size: int) -> Tensor:
    """Return the sum of pieces ``[B, n, size]`` that begin ``hop_size`` apart."""
    parts = torch.split(pieces, hop_size, dim=-1)
    last = len(parts) - 1
    placed = [functional.pad(part, (0, 0, k, last - k)) for k, part in enumerate(parts)]
    return torch.stack(placed).sum(dim=0).flatten(1)
