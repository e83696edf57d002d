"""The vocoder's blocks as kernels: two launches for each convolution, itself included."""

from dataclasses import dataclass

from torch import Tensor

from antiphon.models.cosyvoice3.vocoder import SnakeBlock
from antiphon.nn.kernels.snake_join import SnakeInput, snake_join
from antiphon.nn.kernels.split_conv import SplitWeight, is_splittable, split_conv
from antiphon.nn.layers import Snake
from antiphon.nn.stream_conv import StreamConv, StreamState


@dataclass(frozen=True, slots=True)
class _ActivatedConv:
    """A convolution after a snake.

    Attributes:
        split: its factors as parts of float16; ``None``: its products are those of PyTorch.
    """

    conv: StreamConv
    snake: Snake
    split: SplitWeight | None

    def __call__(self, given: SnakeInput, state: StreamState) -> tuple[Tensor, Tensor]:
        """Return the sum of what is given, and what is made of it, without a bias."""
        conv = self.conv
        before = state.kept.get(conv.name)
        sums, joined, state.kept[conv.name] = snake_join(given, before, conv.padding, self.snake)
        if self.split is None:
            return sums, conv.convolve(joined, has_bias=False)
        return sums, split_conv(joined, self.split)


@dataclass(frozen=True, slots=True)
class FusedSnakeBlock:
    """What a `SnakeBlock` computes."""

    pairs: tuple[tuple[_ActivatedConv, _ActivatedConv], ...]

    @classmethod
    def of(cls, block: SnakeBlock, *, splits_products: bool) -> "FusedSnakeBlock":
        """Take a block.

        Args:
            block: that is computed.
            splits_products: whether products may be sums of those of float16, with 22 of the 24
                bits of float32.
        """

        def activated(conv: StreamConv, snake: Snake) -> _ActivatedConv:
            split = None
            if splits_products and is_splittable(conv.weight):
                split = SplitWeight.of(conv.weight, conv.dilation)
            return _ActivatedConv(conv, snake, split)

        return cls(
            tuple(
                (activated(first, first_snake), activated(second, second_snake))
                for first, second, first_snake, second_snake in block.pairs
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
