"""Streaming convolutions, with the input that later output depends on in the stream's state.

Input may come in pieces of any length and gives the same columns for any split; bit-identical for
the same split.
"""

from dataclasses import dataclass, field
from typing import TypeAlias

import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor

from antiphon.nn.layers import Weights

StreamState: TypeAlias = dict[str, Tensor]
"""Last input columns of each convolution by its name, and other layers' state by theirs."""


@dataclass(frozen=True, slots=True)
class StreamRows:
    """States of several streams, a row each; streams of equal length so far form one batch.

    Tensors keep their addresses after the first `put`, so that graphs can read them.

    Attributes:
        kept: state tensors as in `StreamState`, ``[num_rows, ...]``; empty before the first `put`.
    """

    num_rows: int
    kept: StreamState = field(default_factory=dict)

    def take(self, rows: Tensor) -> StreamState:
        """Return a copy of the states of rows, int64 ``[n]``."""
        return {name: each.index_select(0, rows) for name, each in self.kept.items()}

    def put(self, rows: Tensor, state: StreamState) -> None:
        """Store ``state``, of ``n`` streams, in rows, int64 ``[n]``."""
        for name, each in state.items():
            if name not in self.kept:
                self.kept[name] = each.new_zeros((self.num_rows, *each.shape[1:]))
            self.kept[name].index_copy_(0, rows, each)


@dataclass(frozen=True, slots=True)
class StreamConv:
    """A convolution over columns ``[batch, channels, length]``.

    Without look-ahead an output depends on its input column and those before it. With it, an output
    is returned once its look-ahead has arrived, or at the stream's end, which zeros follow.

    Attributes:
        name: key in a stream's state.
        weight: ``[num_outputs, num_inputs / groups, kernel]``.
        look_ahead: number of columns after an output's own that it depends on.
    """

    name: str
    weight: Tensor
    bias: Tensor | None
    stride: int = 1
    dilation: int = 1
    groups: int = 1
    look_ahead: int = 0

    @classmethod
    def of(cls, weights: Weights, name: str, **sizes: int) -> "StreamConv":
        """Read ``name.weight`` and, if present, ``name.bias``; ``sizes`` are fields by name."""
        return cls(name, weights[f"{name}.weight"], weights.get(f"{name}.bias"), **sizes)

    @property
    def padding(self) -> int:
        """Zeros before the first column; a stride's output ``i`` reads to ``(i + 1) * stride``."""
        if self.stride > 1:
            return self.stride - 1
        return (self.weight.shape[2] - 1) * self.dilation - self.look_ahead

    def __call__(self, columns: Tensor, state: StreamState, *, is_end: bool = False) -> Tensor:
        """Add columns, and return the outputs that are complete."""
        kept = state.get(self.name)
        if kept is None:
            kept = columns.new_zeros((*columns.shape[:2], self.padding))
        joined = torch.cat((kept, columns), dim=2)
        if is_end and self.look_ahead:
            joined = F.pad(joined, (0, self.look_ahead))
        reach = (self.weight.shape[2] - 1) * self.dilation
        num_made = max(0, (joined.shape[2] - reach - 1) // self.stride + 1)
        # A copy: a view would keep the whole joined tensor alive.
        state[self.name] = joined[:, :, num_made * self.stride :].clone()
        if not num_made:
            return joined.new_zeros((len(joined), len(self.weight), 0))
        return self.convolve(joined)

    def convolve(self, joined: Tensor, *, has_bias: bool = True) -> Tensor:
        """Convolve columns that include the preceding ones, for callers that hold the state."""
        is_grouped = self.groups > 1 and self.weight.shape[1] > 1
        is_slow = is_grouped or self.stride > 1 or joined.dtype == torch.float64  # in cuDNN
        convolve = grouped_conv1d if is_slow and joined.is_cuda else F.conv1d
        how = {"stride": self.stride, "dilation": self.dilation, "groups": self.groups}
        return convolve(joined, self.weight, self.bias if has_bias else None, **how)


def grouped_conv1d(
    columns: Tensor, weight: Tensor, bias: Tensor | None, *, stride: int, dilation: int, groups: int
) -> Tensor:
    """Convolve as `torch.nn.functional.conv1d` does, by a matrix product per group.

    For wide float32 groups with many taps cuDNN uses Fourier transforms, group by group: ten of the
    fourteen milliseconds of a token of CosyVoice3 on an H200. Its kernel for float64 takes 180
    microseconds for three taps of 512 channels and 50 columns, which are 39 million products, and
    the one for a stride 1.3 milliseconds for 16 streams.

    Args:
        columns: ``[batch, channels, length]``.
        weight: ``[num_outputs, channels / groups, kernel]``.
        bias: ``[num_outputs]`` or ``None``.
    """
    reach = (weight.shape[2] - 1) * dilation + 1
    windows = columns.unfold(2, reach, stride)[..., ::dilation]
    num_rows, num_channels, length, kernel = windows.shape
    windows = windows.view(num_rows, groups, num_channels // groups, length, kernel)
    # [groups, batch * length, channels of a group * kernel]
    inputs = windows.permute(1, 0, 3, 2, 4).reshape(groups, num_rows * length, -1)
    factors = weight.reshape(groups, len(weight) // groups, -1).transpose(1, 2)
    made = torch.bmm(inputs, factors).view(groups, num_rows, length, -1)
    result = made.permute(1, 0, 3, 2).reshape(num_rows, len(weight), length)
    return result if bias is None else result + bias[:, None]
