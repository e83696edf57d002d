"""Bidirectional recurrent layers that support padded rows."""

import torch
from torch import Tensor, nn

from antiphon.families.kokoro.padding import PaddedRows

_NUM_EXTRA = 4  # inputs; the first one marks padding, four keep matrix products aligned
_SHUT = -1e4  # added before a sigmoid: exactly 0 comes out


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

    def hear(self, x: Tensor, rows: PaddedRows | None) -> Tensor:
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
