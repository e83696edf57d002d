"""What is computed of a row of a padded batch is what is computed of it alone and unpadded."""

from collections.abc import Callable, Generator, Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor

from antiphon.families.kokoro.graph_network import frames_of
from antiphon.families.kokoro.model import KokoroModel
from antiphon.families.kokoro.padding import PaddedRows, make_padded
from antiphon.families.kokoro.styled_layers import StyledInstanceNorm, StyledResidual
from antiphon.families.kokoro.torch_network import build_model
from antiphon.families.kokoro.vocoder import NUM_HARMONICS, signal, spectra
from tests.families.kokoro.test_torch_network import FILE

LENGTHS = (9, 23, 2)
SIZES = (23, 32)  # with and without room behind the longest
STYLES = torch.randn(len(LENGTHS), 256, generator=torch.Generator().manual_seed(1)) / 5
SIZE = 16  # of the tiny network


@pytest.fixture(scope="module", autouse=True)
def _without_gradients() -> Generator[None, None, None]:
    with torch.inference_mode():
        yield


@pytest.fixture(scope="module")
def model(official: Path) -> KokoroModel:
    model = build_model(official, official / FILE).eval()
    make_padded(model)
    return model


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def padded(
    alone: Sequence[Tensor], size: int, dim: int, lengths: Sequence[int] = LENGTHS
) -> tuple[Tensor, PaddedRows]:
    """Return rows in a batch, with anything behind them."""
    shape = list(alone[0].shape)
    shape[0], shape[dim] = len(alone), size
    batch = random(*shape, seed=9) * 3
    for row, each in enumerate(alone):
        batch[row].narrow(dim - 1, 0, each.shape[dim]).copy_(each[0])
    return batch, PaddedRows.of(torch.tensor(lengths), size)


def check(batch: Tensor, alone: Sequence[Tensor], dim: int, tolerance: float = 2e-5) -> None:
    for row, each in enumerate(alone):
        own = batch[row : row + 1].narrow(dim, 0, each.shape[dim])
        torch.testing.assert_close(own, each, rtol=1e-4, atol=tolerance)


def compare(
    layer: Callable[..., Tensor], channels: int, size: int, *, dim: int = 2, styles: bool = True
) -> None:
    """Compare a layer of ``[B, channels, t]``, or of ``[B, t, channels]`` with a ``dim`` of 1."""
    shapes = [(1, channels, each) if dim == 2 else (1, each, channels) for each in LENGTHS]
    inputs = [random(*shape, seed=row) for row, shape in enumerate(shapes)]
    batch, rows = padded(inputs, size, dim)
    if not styles:
        check(layer(batch, rows), [layer(each, None) for each in inputs], dim)
        return
    style = STYLES[:, :128]
    alone = [layer(each, style[row : row + 1], None) for row, each in enumerate(inputs)]
    check(layer(batch, style, rows), alone, dim)


@pytest.mark.parametrize("size", SIZES)
def test_reading(model: KokoroModel, size: int) -> None:
    ids = [torch.arange(40, 40 + each)[None] for each in LENGTHS]
    batch = torch.full((len(ids), size), 77)
    for row, each in enumerate(ids):
        batch[row, : each.shape[1]] = each
    rows = PaddedRows.of(torch.tensor(LENGTHS), size)
    check(model.bert(batch, rows), [model.bert(each) for each in ids], 1)
    read = model.read(batch, STYLES, rows)
    alone = [model.read(each, STYLES[row : row + 1]) for row, each in enumerate(ids)]
    for part, dim in enumerate((1, 2, 1)):
        check(read[part], [each[part] for each in alone], dim)
    assert torch.equal(read[2].sum(dim=1), torch.stack([each[2].sum() for each in alone]))


@pytest.mark.parametrize("size", SIZES)
def test_recurrent_layers(model: KokoroModel, size: int) -> None:
    compare(model.text_encoder.lstm.outputs, SIZE, size, dim=1, styles=False)
    batch, rows = padded([random(1, each, SIZE) for each in LENGTHS], size, 1)
    heard = model.text_encoder.lstm.outputs(batch, rows)
    assert not heard[~rows.is_own[:, 0]].any()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("doubles", [False, True])
def test_styled_convolutions(size: int, doubles: bool) -> None:
    torch.manual_seed(2)
    compare(StyledResidual(6, 8, 128, doubles=doubles), 6, size)
    compare(StyledResidual(6, 6, 128, doubles=doubles), 6, size)


@pytest.mark.parametrize("size", SIZES)
def test_norm(size: int) -> None:
    torch.manual_seed(3)
    norm = StyledInstanceNorm(128, 5)
    norm.norm.weight.copy_(random(5, seed=4))
    norm.norm.bias.copy_(random(5, seed=5))
    compare(norm, 5, size)
    alpha = random(1, 5, 1, seed=6).abs() + 0.1
    compare(lambda x, style, rows: norm(x, style, rows, alpha), 5, size)


@pytest.mark.parametrize("size", SIZES)
def test_curves(model: KokoroModel, size: int) -> None:
    for part in range(2):
        compare(
            lambda x, style, rows, part=part: model.predictor.curves(x, style, rows)[part].mT,
            SIZE + 128,
            size,
            dim=1,
        )


@pytest.mark.parametrize("size", SIZES)
def test_short_time_spectra_and_their_inverse(size: int) -> None:
    window, hop_size = torch.hann_window(20), 5
    lengths = [60 * each for each in LENGTHS]
    samples = [random(1, each, seed=each) for each in lengths]
    batch, rows = padded(samples, 60 * size, 1, lengths)
    alone = [spectra(each, window, hop_size, None) for each in samples]
    check(spectra(batch, window, hop_size, rows), alone, 2)
    lengths = [12 * each + 1 for each in LENGTHS]
    parts = [random(1, 22, each, seed=each) for each in lengths]
    batch, rows = padded(parts, 12 * size + 1, 2, lengths)
    whole, *those = (torch.polar(each[:, :11], each[:, 11:]) for each in (batch, *parts))
    inverse = [signal(each, window, hop_size, None) for each in those]
    assert [each.shape[1] for each in inverse] == [60 * each for each in LENGTHS]
    check(signal(whole, window, hop_size, rows), inverse, 1)


@pytest.mark.parametrize("size", SIZES)
def test_saying(model: KokoroModel, size: int) -> None:
    """Given the same pitch: its rounding moves the phases of bins without energy at will."""
    text, rows = padded([random(1, SIZE, each, seed=each) for each in LENGTHS], size, 2)
    fine = [2 * each for each in LENGTHS]
    pitches = [random(1, 1, each, seed=each) * 80 + 100 for each in fine]
    pitch, _ = padded(pitches, 2 * size, 2)
    loudness, _ = padded([random(1, 1, each, seed=each) for each in fine], 2 * size, 2)
    noise = random(len(LENGTHS), 600 * size, NUM_HARMONICS, seed=8)
    said = model.decoder(text, pitch, loudness, STYLES[:, :128], noise, rows)
    for row, length in enumerate(LENGTHS):
        one = slice(row, row + 1)
        alone = model.decoder(
            text[one, :, :length],
            pitch[one, :, : 2 * length],
            loudness[one, :, : 2 * length],
            STYLES[one, :128],
            noise[one, : 600 * length],
        )
        assert alone.shape == (1, 600 * length)
        check(said[one], [alone], 1)


def test_frames_are_those_of_phonemes() -> None:
    durations = torch.tensor([[2, 1, 3, 0], [1, 1, 0, 0]])
    places, rows = frames_of(durations, 7)
    assert places[0, 0, :6].tolist() == [0, 0, 1, 2, 2, 2]
    assert places[1, 0, :2].tolist() == [0, 1]
    assert places.max() <= 3
    assert rows.lengths.columns.tolist() == [6, 2]
