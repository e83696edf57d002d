"""Attention's kernels against its PyTorch lines, on a GPU or in Triton's interpreter."""

import sys
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tests.kernels import DEVICE, random, why_not_here

if reason := why_not_here():
    pytest.skip(reason, allow_module_level=True)

from antiphon.nn import kernels
from antiphon.nn.attention import (
    Attend,
    FrameCache,
    HeadShape,
    KVShape,
    PagedCache,
    QKVHeads,
    Tokens,
    cut_tiles,
)
from antiphon.nn.attention_backends import (
    decode_attention,
    frame_attention,
    mixed_attention,
    prefill_attention,
    whole_attention,
)
from antiphon.nn.layer_configs import TransformerConfig
from antiphon.nn.layers import RMSNorm, Rope, Rotation

pytestmark = pytest.mark.gpu

HEADS = HeadShape(num_heads=4, num_kv_heads=2, head_dim=16)
NUM_SLOTS, MAX_POSITIONS, BLOCK_POSITIONS = 4, 640, 16
WIDTH = (HEADS.num_heads + 2 * HEADS.num_kv_heads) * HEADS.head_dim

Using = Callable[[bool], None]


@pytest.fixture
def use_kernels(monkeypatch: pytest.MonkeyPatch) -> Using:
    """Return what chooses between kernels and PyTorch lines, wherever tensors are."""

    def use(is_kernel: bool) -> None:
        monkeypatch.setattr(kernels, "run_on", lambda tensor: is_kernel)

    use(False)
    return use


def new_cache() -> PagedCache:
    """Return a cache whose slots hold blocks that lie anywhere."""
    max_blocks = MAX_POSITIONS // BLOCK_POSITIONS
    num_blocks = NUM_SLOTS * max_blocks
    shape = (2, 2, num_blocks + 1, BLOCK_POSITIONS, HEADS.num_kv_heads, HEADS.head_dim)
    blocks = torch.randperm(num_blocks, generator=torch.Generator().manual_seed(0))
    table = torch.full((NUM_SLOTS + 1, max_blocks), num_blocks, dtype=torch.int32)
    table[:-1] = blocks.view(NUM_SLOTS, max_blocks)
    return PagedCache(random(*shape, seed=7), table.to(DEVICE))


def normed_heads(has_norms: bool = True) -> QKVHeads:
    if not has_norms:
        return QKVHeads(HEADS)
    norms = (RMSNorm(random(HEADS.head_dim, seed=seed), 1e-6) for seed in (3, 4))
    return QKVHeads(HEADS, *norms)


def rope() -> Rope:
    config = TransformerConfig(
        hidden_size=WIDTH,
        intermediate_size=WIDTH,
        num_layers=2,
        num_heads=HEADS.num_heads,
        num_kv_heads=HEADS.num_kv_heads,
        head_dim=HEADS.head_dim,
        norm_eps=1e-6,
        rope_theta=1e4,
        max_positions=MAX_POSITIONS,
    )
    return Rope.build(config, MAX_POSITIONS, torch.zeros((), device=DEVICE))


def both(
    use_kernels: Using,
    make: Callable[[PagedCache], Attend],
    joined: Tensor,
    rotation: Rotation,
    *,
    has_norms: bool = True,
) -> tuple[Tensor, Tensor]:
    """Return what kernels and what PyTorch lines give; the caches must be the same afterwards."""
    results, caches = [], []
    for is_kernel in (True, False):
        use_kernels(is_kernel)
        cache = new_cache()
        results.append(make(cache)(1, joined, normed_heads(has_norms), rotation))
        caches.append(cache.tensor)
    torch.testing.assert_close(*caches)
    use_kernels(True)
    ours, reference = results
    torch.testing.assert_close(ours, reference, atol=1e-5, rtol=1e-5)
    return ours, reference


def test_decoding_slots_of_any_length(use_kernels: Using) -> None:
    slots = torch.tensor([2, 0, 3, 1], device=DEVICE)
    positions = torch.tensor([600, 30, 255, 256], device=DEVICE)
    joined, rotation = random(4, 1, WIDTH), rope().at(positions[:, None])

    def attend(num_visible: int, row: int | None = None) -> Tensor:
        rows = slice(None) if row is None else slice(row, row + 1)
        step = decode_attention(new_cache(), (slots[rows], positions[rows]), num_visible)
        turned = Rotation(rotation.cosines[rows], rotation.sines[rows])
        return step(1, joined[rows], normed_heads(), turned)

    ours, _ = both(
        use_kernels,
        lambda cache: decode_attention(cache, (slots, positions), 601),
        joined,
        rotation,
    )
    assert torch.equal(ours, attend(MAX_POSITIONS))
    for row, num_visible in enumerate((601, 31, 256, 257)):
        alone = attend(num_visible, row)
        assert torch.equal(alone[0], ours[row]), "a row's result depends on its company"


@pytest.mark.parametrize("position", [0, 1, 15, 16, 63, 64])
def test_decoding_a_short_slot(use_kernels: Using, position: int) -> None:
    slots, positions = (torch.tensor([value], device=DEVICE) for value in (1, position))
    both(
        use_kernels,
        lambda cache: decode_attention(cache, (slots, positions), position + 1),
        random(1, 1, WIDTH),
        rope().at(positions[:, None]),
    )


@pytest.mark.parametrize("position", [15, 600])
def test_decoding_without_norms(use_kernels: Using, position: int) -> None:
    slots, positions = (torch.tensor([value], device=DEVICE) for value in (1, position))
    both(
        use_kernels,
        lambda cache: decode_attention(cache, (slots, positions), position + 1),
        random(1, 1, WIDTH),
        rope().at(positions[:, None]),
        has_norms=False,
    )


def tokens_of(pieces: list[tuple[int, int, int]]) -> Tokens:
    slots = [slot for slot, _, count in pieces for _ in range(count)]
    positions = [start + at for _, start, count in pieces for at in range(count)]
    tiles = torch.from_numpy(cut_tiles(pieces))
    tiles = torch.cat((tiles, torch.zeros(2, 4, dtype=tiles.dtype)))  # some that name nothing
    return Tokens(
        torch.tensor(slots, device=DEVICE), torch.tensor(positions, device=DEVICE), tiles.to(DEVICE)
    )


def test_reading_pieces_of_prompts(use_kernels: Using) -> None:
    pieces = [(2, 0, 5), (0, 70, 40), (3, 31, 1), (1, 0, 64), (NUM_SLOTS, 0, 3)]
    tokens = tokens_of(pieces)
    joined = random(1, len(tokens.slots), WIDTH)
    rotation = rope().at(tokens.positions[None])
    both(use_kernels, lambda cache: prefill_attention(cache, tokens), joined, rotation)


def test_many_heads_share_a_key(use_kernels: Using, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tile then has more rows than a program takes."""
    heads = HeadShape(num_heads=32, num_kv_heads=2, head_dim=16)
    here = sys.modules[__name__]
    monkeypatch.setattr(here, "HEADS", heads)
    monkeypatch.setattr(here, "WIDTH", 36 * 16)
    tokens = tokens_of([(2, 0, 5), (0, 70, 40), (3, 31, 1)])
    joined = random(1, len(tokens.slots), WIDTH)
    rotation = rope().at(tokens.positions[None])
    both(use_kernels, lambda cache: prefill_attention(cache, tokens), joined, rotation)
    slots, positions = (torch.tensor([value], device=DEVICE) for value in (1, 600))
    both(
        use_kernels,
        lambda cache: decode_attention(cache, (slots, positions), 601),
        joined[:, :1],
        rope().at(positions[:, None]),
    )


def test_rows_of_a_step_beside_prompts(use_kernels: Using) -> None:
    """Each is as in a pass of its own, to the bit; the second row's prompt ends in this pass."""
    rows = [(2, 300), (1, 33)]
    prompts = tokens_of([(0, 70, 40), (1, 0, 33)])
    tiles = prompts.tiles.clone()
    tiles[:, 1] += len(rows)
    slots, positions = torch.tensor(rows, device=DEVICE).T.contiguous()
    tokens = Tokens(
        torch.cat((slots, prompts.slots)), torch.cat((positions, prompts.positions)), tiles
    )
    joined, rotation = random(1, len(tokens.slots), WIDTH), rope().at(tokens.positions[None])
    places = (slots, positions)
    ours, _ = both(
        use_kernels, lambda cache: mixed_attention(cache, tokens, places, 301), joined, rotation
    )
    padding = torch.tensor([(NUM_SLOTS, 0)] * 18, device=DEVICE).T
    padded = tuple(torch.cat(each) for each in zip(places, padding, strict=True))
    attend = mixed_attention(new_cache(), tokens, (padded[0], padded[1]), MAX_POSITIONS)
    assert torch.equal(attend(1, joined, normed_heads(), rotation), ours)
    cache, parts = new_cache(), (rotation.cosines, rotation.sines)
    turned = Rotation(*(part[:, len(rows) :] for part in parts))
    read = prefill_attention(cache, prompts)(1, joined[:, len(rows) :], normed_heads(), turned)
    turned = Rotation(*(part[0, : len(rows), None] for part in parts))
    step = decode_attention(cache, places, 301)
    made = step(1, joined[0, : len(rows), None], normed_heads(), turned)
    assert torch.equal(ours, torch.cat((made.transpose(0, 1), read), dim=1))


def test_a_piece_is_read_alike_in_any_company(use_kernels: Using) -> None:
    use_kernels(True)
    joined = random(1, 45, WIDTH)
    results = []
    for others in ([], [(0, 3, 9)]):
        tokens = tokens_of([*others, (2, 60, 45)])
        padded = torch.cat((random(1, len(tokens.slots) - 45, WIDTH, seed=5), joined), dim=1)
        attend = prefill_attention(new_cache(), tokens)
        rotation = rope().at(tokens.positions[None])
        results.append(attend(1, padded, normed_heads(), rotation)[:, -45:])
    assert torch.equal(*results)


@pytest.mark.parametrize("is_normed", [True, False])
def test_a_frame_run(use_kernels: Using, is_normed: bool) -> None:
    shape = KVShape(2, HEADS.num_kv_heads, HEADS.head_dim)
    joined = random(5, 16, WIDTH)
    results = []
    for is_kernel in (True, False):
        use_kernels(is_kernel)
        cache = FrameCache.zeros(shape, 6, 16, like=torch.zeros((), device=DEVICE))
        cache.kept.fill_(7.0)  # of an earlier frame
        parts = []
        for start, end in [(0, 2), *((at, at + 1) for at in range(2, 16))]:
            rotation = rope().between(start, end)
            heads = normed_heads() if is_normed else QKVHeads(HEADS)
            attend = frame_attention(cache, 5, start)
            parts.append(attend(1, joined[:, start:end].contiguous(), heads, rotation))
        results.append(torch.cat(parts, dim=1))
    torch.testing.assert_close(*results, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("num_positions", "has_norms"), [(5, False), (17, True)])
def test_positions_that_all_see_each_other(
    num_positions: int, has_norms: bool, use_kernels: Using
) -> None:
    joined = random(3, num_positions, WIDTH)
    heads, rotation = normed_heads(has_norms), rope().between(0, num_positions)
    use_kernels(True)
    ours = whole_attention(0, joined, heads, rotation)
    alone = whole_attention(0, joined[1:2], heads, rotation)
    assert torch.equal(alone[0], ours[1]), "a row's result depends on its company"
    use_kernels(False)
    expected = whole_attention(0, joined, heads, rotation)
    torch.testing.assert_close(ours, expected, atol=1e-5, rtol=1e-5)


def test_more_positions_than_a_program_holds_all_see_each_other(use_kernels: Using) -> None:
    joined, rotation = random(1, 65, WIDTH), rope().between(0, 65)
    use_kernels(True)
    ours = whole_attention(0, joined, normed_heads(), rotation)
    assert ours.shape == (1, 65, HEADS.num_heads * HEADS.head_dim)
