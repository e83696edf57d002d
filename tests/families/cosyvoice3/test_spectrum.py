"""Spectra of a stream are those of PyTorch, and so are the samples that come back."""

import pytest
import torch

from antiphon.families.cosyvoice3.spectrum import StreamSpectrum
from antiphon.families.cosyvoice3.stream_conv import StreamState

HOP = 4
WINDOW = torch.hann_window(4 * HOP)
SAMPLES = torch.randn(480, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("sizes", [[480], [100, 380], [40, 40, 400]])
def test_analysis(sizes: list[int]) -> None:
    spectrum, state = StreamSpectrum.of(WINDOW, HOP), StreamState()
    *pieces, last = torch.split(SAMPLES[None], sizes, dim=1)
    made = [spectrum.analyze(each, None, state) for each in pieces]
    found = torch.cat(
        [*made, spectrum.analyze(last, None, state, torch.tensor([last.shape[1]]))], dim=2
    )
    wanted = torch.stft(SAMPLES, 4 * HOP, HOP, window=WINDOW, return_complex=True)
    torch.testing.assert_close(found[0], torch.cat((wanted.real, wanted.imag)))


@pytest.mark.parametrize("sizes", [[121], [2, 119], [40, 41, 40]])
def test_synthesis(sizes: list[int]) -> None:
    spectrum, state = StreamSpectrum.of(WINDOW, HOP), StreamState()
    generator = torch.Generator().manual_seed(1)
    given = torch.randn(2, 1, 121, 2 * HOP + 1, generator=generator)  # magnitudes' logs, phases
    *pieces, last = torch.split(given, sizes, dim=2)
    made = [spectrum.synthesize(each[0], each[1], state) for each in pieces]
    made.append(spectrum.synthesize(last[0], last[1], state, torch.tensor([last.shape[2]])))
    complete = torch.polar(given[0, 0].exp(), given[1, 0]).T
    wanted = torch.istft(complete, 4 * HOP, HOP, window=WINDOW)
    torch.testing.assert_close(torch.cat(made, dim=1)[0], wanted, atol=1e-5, rtol=1e-4)
