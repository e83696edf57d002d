"""Sentences padded to a common length, each computed as if it were alone and unpadded.

Lengths are numbers on the device, so that one CUDA graph serves all sentences up to its own length.
Where nothing is padded there are no `PaddedRows`, and layers do no more than the published ones.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn

from antiphon.nn.row_lengths import RowLengths

_NUM_EXTRA = 4  # inputs; the first one marks padding, four keep matrix products aligned
_SHUT = -1e4  # added before a sigmoid: exactly 0 comes out


@dataclass(frozen=True, eq=False)
class PaddedRows:
    """Valid columns of each row in a padded batch ``[B, channels, t]``: the first ones.

    What layers leave behind them is finite, and means nothing.

    Attributes:
        lengths: own columns of each row.
        is_own: bool ``[B, 1, t]``.
        mask: the same as factors, float32.
        shares: factors whose sum with a row's columns is the mean of its own, ``[B, t, 1]``.
    """

    lengths: RowLengths
    is_own: Tensor
    mask: Tensor
    shares: Tensor

    @classmethod
    def of(cls, columns: Tensor, num_columns: int) -> "PaddedRows":
        """Return rows of ``num_columns`` columns, of which ``columns``, int64 ``[B]``, are own."""
        lengths = RowLengths(columns)
        is_own = lengths.mask(num_columns)
        mask = is_own.float()
        return cls(lengths, is_own, mask, (mask / columns.clamp(min=1)[:, None, None]).mT)

    @cached_property
    def doubled(self) -> "PaddedRows":
        """The rows after each column has become two."""
        return self.scaled(2)

    def scaled(self, factor: int, more: int = 0) -> "PaddedRows":
        """Return the rows after each column has become ``factor``, and ``more`` were added."""
        num_columns = self.mask.shape[2] * factor + more
        return PaddedRows.of(self.lengths.columns * factor + more, num_columns)


def own(x: Tensor, rows: PaddedRows | None) -> Tensor:
    """Return ``[B, channels, t]`` with zeros behind rows' own columns, for a layer that mixes."""
    return x if rows is None else x * rows.mask


class BothWays(nn.LSTM):
    """A recurrent layer forwards and one backwards, ``[B, t, inputs]`` to ``[B, t, outputs]``.

    The one backwards meets the padding first. It must not learn anything there: a further input,
    which is 1 there, shuts all gates, so that the state stays zero until the row's own end. So one
    call of the library reads both ways, as it does without padding.
    """

    def __init__(self, num_inputs: int, num_outputs: int) -> None:
        super().__init__(num_inputs, num_outputs // 2, batch_first=True, bidirectional=True)
        self.padded: nn.LSTM | None = None

    def make_padded(self) -> None:
        """Create the layer for padded rows after the weights are loaded, if it does not exist."""
        if self.padded is not None:
            return
        padded = nn.LSTM(
            self.input_size + _NUM_EXTRA, self.hidden_size, batch_first=True, bidirectional=True
        )
        with torch.no_grad():
            for name, parameter in self.named_parameters(recurse=False):
                weight: Tensor = parameter
                if name.startswith("weight_ih"):
                    gates = weight.new_zeros(4, self.hidden_size, _NUM_EXTRA)
                    gates[[0, 1, 3], :, 0] = _SHUT  # in, forget, out; not the candidate
                    weight = torch.cat([weight, gates.flatten(0, 1)], dim=1)
                padded.get_parameter(name).copy_(weight)
        self.padded = padded.to(next(self.parameters()).device).eval()

    def outputs(self, x: Tensor, rows: PaddedRows | None) -> Tensor:
        """Return the outputs of both directions at each position; zeros in the padding."""
        if rows is None:
            outputs: Tensor = self(x)[0]
            return outputs
        assert self.padded is not None, "make_padded() was not called"
        marks = (1 - rows.mask).mT.expand(-1, -1, _NUM_EXTRA)
        outputs = self.padded(torch.cat([x, marks], dim=-1))[0]
        return outputs


def make_padded(model: nn.Module) -> None:
    """Prepare all recurrent layers of a network for padded rows."""
    for layer in list(model.modules()):
        if isinstance(layer, BothWays):
            layer.make_padded()
