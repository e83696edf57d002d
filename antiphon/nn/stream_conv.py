"""Convolutions of one stream: what later input needs of earlier input is in the stream's state.

Input may come in pieces of any length. In whatever pieces, the same columns come out; to the last
bit too, if the pieces are the same.
"""

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor

from antiphon.nn.layers import Weights


@dataclass(slots=True)
class StreamState:
    """The last columns of each convolution's input, by its name; what a layer keeps, by its own."""

    kept: dict[str, Tensor] = field(default_factory=dict)

    @property
    def num_bytes(self) -> int:
        """What is kept takes."""
        return sum(each.nbytes for each in self.kept.values())


@dataclass(frozen=True, slots=True)
class StreamRows:
    """States of many streams, a row each, that streams of equal length so far read as one batch.

    Tensors stay where they are once a first state has been put, so that graphs can read them.

    Attributes:
        num_rows: that there are.
        kept: as of `StreamState`, ``[num_rows, ...]``; nothing before the first state is put.
    """

    num_rows: int
    kept: dict[str, Tensor] = field(default_factory=dict)

    def take(self, rows: Tensor) -> StreamState:
        """Return a copy of the states of rows, int64 ``[n]``."""
        return StreamState({name: each.index_select(0, rows) for name, each in self.kept.items()})

    def put(self, rows: Tensor, state: StreamState) -> None:
        """Make ``state``, of ``n`` streams, that of as many rows, int64 ``[n]``."""
        for name, each in state.kept.items():
            if name not in self.kept:
                self.kept[name] = each.new_zeros((self.num_rows, *each.shape[1:]))
            self.kept[name].index_copy_(0, rows, each)


@dataclass(frozen=True, slots=True)
class StreamConv:
    """A convolution over columns ``[batch, channels, length]``.

    Without look-ahead an output depends on its input column and those before it. With it, an output
    comes out when its look-ahead has come in, or at the stream's end, which zeros follow.

    Attributes:
        name: in a stream's state.
        weight: ``[num_outputs, num_inputs / groups, kernel]``.
        padding: zeros before the first column.
        look_ahead: columns after an output's own that it depends on.
    """

    name: str
    weight: Tensor
    bias: Tensor | None
    padding: int
    stride: int = 1
    dilation: int = 1
    groups: int = 1
    look_ahead: int = 0

    @classmethod
    def of(
        cls,
        weights: Weights,
        name: str,
        *,
        stride: int = 1,
        dilation: int = 1,
        groups: int = 1,
        look_ahead: int = 0,
    ) -> "StreamConv":
        """Take ``name.weight`` and, if there is one, ``name.bias``.

        With a stride, output ``i`` reads up to input ``(i + 1) * stride``.
        """
        weight = weights[f"{name}.weight"]
        padding = (weight.shape[2] - 1) * dilation - look_ahead
        if stride > 1:
            padding = stride - 1
        bias = weights.get(f"{name}.bias")
        return cls(name, weight, bias, padding, stride, dilation, groups, look_ahead)

    def __call__(self, columns: Tensor, state: StreamState, *, is_end: bool = False) -> Tensor:
        """Take in columns, and return what can be made by now."""
        kept = state.kept.get(self.name)
        if kept is None:
            kept = columns.new_zeros((*columns.shape[:2], self.padding))
        joined = torch.cat((kept, columns), dim=2)
        if is_end and self.look_ahead:
            joined = F.pad(joined, (0, self.look_ahead))
        reach = (self.weight.shape[2] - 1) * self.dilation
        num_made = max(0, (joined.shape[2] - reach - 1) // self.stride + 1)
        # A copy: a view would keep all that was joined.
        state.kept[self.name] = joined[:, :, num_made * self.stride :].clone()
        if not num_made:
            return joined.new_zeros((len(joined), len(self.weight), 0))
        return self.convolve(joined)

    def convolve(self, joined: Tensor, *, has_bias: bool = True) -> Tensor:
        """Convolve columns with those before them, whoever keeps what later ones need."""
        is_grouped = self.groups > 1 and self.weight.shape[1] > 1
        is_slow = is_grouped or self.stride > 1 or joined.dtype == torch.float64  # in cuDNN
        convolve = grouped_conv1d if is_slow and joined.is_cuda else F.conv1d
        return convolve(
            joined,
            self.weight,
            self.bias if has_bias else None,
            stride=self.stride,
            dilation=self.dilation,
            groups=self.groups,
        )


def grouped_conv1d(
    columns: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    *,
    stride: int,
    dilation: int,
    groups: int,
) -> Tensor:
    """Convolve as `torch.nn.functional.conv1d` does, by a matrix product of each group.

    Of wide groups of float32 with many taps cuDNN takes Fourier transforms, group by group: ten of
    the fourteen milliseconds of a token of CosyVoice3 on an H200. Its kernel for float64 takes 180
    microseconds for three taps of 512 channels and 50 columns, which are 39 million products, and
    the one for a stride 1.3 milliseconds of 16 streams.

    Args:
        columns: ``[batch, channels, length]``.
        weight: ``[num_outputs, channels / groups, kernel]``.
        bias: ``[num_outputs]`` or ``None``.
        stride: between outputs.
        dilation: between taps.
        groups: that see nothing of each other.
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
