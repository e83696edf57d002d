"""Fused kernels of the vocoder's blocks: two launches per convolution, including its own."""

from dataclasses import dataclass
from typing import TypeAlias

from torch import Tensor

from antiphon.families.cosyvoice3.stream_conv import StreamConv, StreamState
from antiphon.nn.kernels.snake_join import SnakeInput, snake_join
from antiphon.nn.kernels.split_conv import SplitWeight, is_splittable, split_conv
from antiphon.nn.layers import Snake

Pairs: TypeAlias = tuple[tuple[StreamConv, StreamConv, Snake, Snake], ...]
"""Two convolutions and the activations before them, for each pair."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitStreamConv(StreamConv):
    """A convolution with sums of float16 products: 22 of float32's 24 bits.

    Attributes:
        split: weight split into float16 parts.
    """

    split: SplitWeight

    @classmethod
    def like(cls, conv: StreamConv) -> StreamConv:
        """Return an equivalent of ``conv`` with split products, or ``conv`` itself."""
        if not is_splittable(conv.weight) or conv.stride > 1 or conv.groups > 1:
            return conv
        split = SplitWeight.of(conv.weight, conv.dilation)
        return cls(
            conv.name, conv.weight, conv.bias, 1, conv.dilation, 1, conv.look_ahead, split=split
        )

    def convolve(self, joined: Tensor, *, has_bias: bool = True) -> Tensor:
        made = split_conv(joined, self.split)
        return made + self.bias[:, None] if has_bias and self.bias is not None else made


@dataclass(frozen=True, slots=True)
class _ActivatedConv:
    conv: StreamConv
    snake: Snake

    def __call__(self, given: SnakeInput, state: StreamState) -> tuple[Tensor, Tensor]:
        """Return the sum of the inputs, and the convolution's output without bias."""
        conv = self.conv
        before, packs = state.get(conv.name), isinstance(conv, SplitStreamConv)
        sums, joined, state[conv.name] = snake_join(
            given, before, conv.padding, self.snake, packs=packs
        )
        return sums, conv.convolve(joined, has_bias=False)


@dataclass(frozen=True, slots=True)
class FusedSnakeBlock:
    """Fused equivalent of an `antiphon.families.cosyvoice3.vocoder.SnakeBlock`."""

    pairs: tuple[tuple[_ActivatedConv, _ActivatedConv], ...]

    @classmethod
    def of(cls, pairs: Pairs, *, splits_products: bool) -> "FusedSnakeBlock":
        """Build from a block's pairs; ``splits_products`` permits `SplitStreamConv`."""

        def activated(conv: StreamConv, snake: Snake) -> _ActivatedConv:
            return _ActivatedConv(SplitStreamConv.like(conv) if splits_products else conv, snake)

        return cls(
            tuple(
                (activated(first, first_snake), activated(second, second_snake))
                for first, second, first_snake, second_snake in pairs
            )
        )

    def __call__(self, columns: Tensor, state: StreamState) -> Tensor:
        given = SnakeInput(columns)
        for first, second in self.pairs:
            columns, hidden = first(given, state)
            _, branch = second(SnakeInput(hidden, bias=first.conv.bias), state)
            given = SnakeInput(columns, branch, second.conv.bias)
        assert given.branch is not None
        branch = given.branch if given.bias is None else given.branch + given.bias[:, None]
        return columns + branch
