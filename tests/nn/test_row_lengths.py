"""Rows of a padded batch are padded and averaged as if each were alone."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)

from antiphon.nn.row_lengths import RowLengths

LENGTHS = (4, 9, 6, 7)


def batch() -> torch.Tensor:
    """Return a batch with numbers that are not to be read behind the rows' own columns."""
    x = torch.randn(len(LENGTHS), 3, max(LENGTHS), generator=torch.Generator().manual_seed(0))
    for row, length in enumerate(LENGTHS):
        x[row, :, length:] = 1000.0
    return x


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate"])
@pytest.mark.parametrize(("before", "after"), [(0, 1), (2, 0), (3, 3)])
def test_every_row_is_padded_at_its_own_end(mode: str, before: int, after: int) -> None:
    x = batch()
    padded = RowLengths(torch.tensor(LENGTHS)).pad(x, before, after, mode)
    assert padded.shape == (len(LENGTHS), 3, before + max(LENGTHS) + after)
    for row, length in enumerate(LENGTHS):
        alone = F.pad(x[row : row + 1, :, :length], (before, after), mode)
        assert torch.equal(padded[row : row + 1, :, : alone.shape[2]], alone)


def test_means_are_of_the_rows_own_columns() -> None:
    x = batch()
    means = RowLengths(torch.tensor(LENGTHS)).mean(x)
    alone = [x[row, :, :length].mean(dim=1) for row, length in enumerate(LENGTHS)]
    torch.testing.assert_close(means[:, :, 0], torch.stack(alone))


def test_a_part_of_a_stride_counts_as_one() -> None:
    lengths = RowLengths(torch.tensor([1, 4, 5, 8]))
    assert lengths.downsampled(4).columns.tolist() == [1, 1, 2, 2]
