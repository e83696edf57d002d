"""Convolutions of a stream: in whatever pieces its columns come, the same ones come out."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor

from antiphon.families.cosyvoice3.stream_conv import StreamConv, StreamState, grouped_conv1d

LENGTH = 60


def numbers(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def conv_of(kernel: int, **more: int) -> StreamConv:
    weights = {
        "conv.weight": numbers(4, 6 // more.get("groups", 1), kernel),
        "conv.bias": numbers(4),
    }
    return StreamConv.of(weights, "conv", **more)


def said(conv: StreamConv, columns: Tensor, sizes: list[int]) -> Tensor:
    state = StreamState()
    pieces = torch.split(columns, sizes, dim=2)
    made = [conv(each, state) for each in pieces[:-1]]
    return torch.cat([*made, conv(pieces[-1], state, is_end=True)], dim=2)


@pytest.mark.parametrize(
    ("kernel", "more"),
    [
        (1, {}),
        (5, {}),
        (3, {"dilation": 5}),
        (7, {"groups": 2}),
        (4, {"look_ahead": 3}),
        (5, {"look_ahead": 4}),
        (6, {"stride": 3}),
        (30, {"stride": 15}),
    ],
)
def test_pieces_make_what_the_whole_makes(kernel: int, more: dict[str, int]) -> None:
    conv, columns = conv_of(kernel, **more), numbers(2, 6, LENGTH)
    ahead, stride = more.get("look_ahead", 0), more.get("stride", 1)
    reach = (kernel - 1) * more.get("dilation", 1)
    left = stride - 1 if stride > 1 else reach - ahead
    wanted = F.conv1d(
        F.pad(columns, (left, ahead)),
        conv.weight,
        conv.bias,
        stride=stride,
        dilation=more.get("dilation", 1),
        groups=more.get("groups", 1),
    )
    for sizes in ([LENGTH], [20, 40], [1, 1, 30, 28], [59, 1], [7] * 8 + [4]):
        torch.testing.assert_close(said(conv, columns, sizes), wanted)


def test_what_is_kept_does_not_grow() -> None:
    conv, state = conv_of(3, dilation=4), StreamState()
    conv(numbers(2, 6, 8), state)
    num_bytes = sum(each.nbytes for each in state.values())
    for _ in range(3):
        conv(numbers(2, 6, 50), state)
    assert sum(each.nbytes for each in state.values()) == num_bytes == 2 * 6 * 8 * 4


@pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (2, 1), (1, 3), (3, 2)])
@pytest.mark.parametrize("groups", [1, 4])
def test_products_of_groups_are_a_convolution(stride: int, dilation: int, groups: int) -> None:
    columns, weight, bias = numbers(2, 12, 40), numbers(8, 12 // groups, 5), numbers(8)
    more = {"stride": stride, "dilation": dilation, "groups": groups}
    made = grouped_conv1d(columns, weight, bias, **more)
    torch.testing.assert_close(made, F.conv1d(columns, weight, bias, **more), rtol=1e-5, atol=1e-5)
    plain = grouped_conv1d(columns, weight, None, **more)
    torch.testing.assert_close(plain + bias[:, None], made)
