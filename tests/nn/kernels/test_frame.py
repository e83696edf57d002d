"""The ends of a step against PyTorch lines, on a GPU or in Triton's interpreter."""

import pytest
import torch
from torch import Tensor

from tests.kernels import DEVICE, random, why_not_here

if reason := why_not_here():
    pytest.skip(reason, allow_module_level=True)

from antiphon.nn import kernels
from antiphon.nn.kernels import frame
from antiphon.nn.sampler import SamplingReach, SamplingRows, penalize_repetition, sample

pytestmark = pytest.mark.gpu

NUM_SLOTS, WIDTH, NUM_GROUPS, VOCAB, POSITIONS, KEPT = 6, 48, 5, 70, 12, 4
INDEX = torch.tensor([3, 0, 4, 5, 5], device=DEVICE)  # the last slot is padding


def integers(high: int, *shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(high, shape, generator=generator).to(DEVICE)


def counts() -> tuple[Tensor, Tensor]:
    positions, made = integers(9, NUM_SLOTS, seed=1), integers(9, NUM_SLOTS, seed=2)
    positions[0], made[0] = POSITIONS + 3, POSITIONS + 1  # beyond what there is
    positions[-1] = made[-1] = 0
    return positions, made


def test_embed_adds_text_to_what_is_pending() -> None:
    pending, table, norm = random(NUM_SLOTS, WIDTH), random(9, WIDTH, seed=3), random(WIDTH, seed=4)
    ids = integers(9, NUM_SLOTS, POSITIONS, seed=5)
    scaled, positions, made = frame.embed(INDEX, pending, (ids, table), counts(), norm)
    expected = [each[INDEX].clamp(max=POSITIONS - 1) for each in counts()]
    assert torch.equal(positions, expected[0])
    assert torch.equal(made, expected[1])
    states = pending[INDEX] + table[ids[INDEX, made]]
    torch.testing.assert_close(scaled.states, states)
    torch.testing.assert_close(scaled.scaled, states * norm)
    torch.testing.assert_close(scaled.squares, states.square().sum(1, keepdim=True))


@pytest.mark.parametrize("top_p", [1.0, 0.7])
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_sample_draws_as_the_sampler_does(
    temperature: float, top_p: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "_HAS_TRITON", False)
    logits, noise = random(len(INDEX), VOCAB) * 3, random(len(INDEX), VOCAB, seed=1)
    columns = [temperature, 9.0, top_p, 1.7, *[0.0] * 4]
    parameters = torch.tensor(columns, device=DEVICE).repeat(NUM_SLOTS, 1)
    occurred, forbidden = integers(2, NUM_SLOTS, VOCAB) > 0, integers(4, VOCAB, seed=2) == 0
    end, made = int(logits[0].argmax()), torch.arange(NUM_SLOTS, device=DEVICE)
    forbidden[end] = False
    expected = penalize_repetition(logits, occurred[INDEX], parameters[INDEX, 3])
    expected = expected.masked_fill(forbidden, -torch.inf)
    least = torch.arange(NUM_SLOTS, device=DEVICE).flip(0)
    expected[(made < least)[INDEX], end] = -torch.inf
    by_row = parameters[INDEX]
    heat, top_ks, top_ps, penalty = by_row.unbind(1)[:4]
    rows = SamplingRows(heat, top_ks.long(), top_ps, penalty, SamplingReach(VOCAB, uses_top_p=True))
    codes = torch.zeros(len(INDEX), 3, dtype=torch.int64, device=DEVICE)
    scores = torch.zeros(len(INDEX), 2, device=DEVICE)
    rules = frame.SamplingRules(parameters, occurred.clone(), forbidden, made, least, end)
    frame.sample(logits, INDEX, rules, noise, codes[:, 1], scores[:, 0])
    tokens, best = sample(expected, rows, noise)
    assert torch.equal(codes[:, 1], tokens)
    torch.testing.assert_close(scores[:, 0], best)
    assert rules.has_occurred[INDEX, tokens].all()
    assert int(rules.has_occurred.sum() - occurred.sum()) <= len(INDEX)


def test_commit_stores_frames_and_their_outcomes() -> None:
    codes = integers(7, len(INDEX), NUM_GROUPS + 1)
    codes[-1] = codes[-2]  # the same slot: the order in which they are kept is open
    scores = random(len(INDEX), NUM_GROUPS)
    scores[1, 2], scores[2, 4] = torch.nan, torch.inf
    end = int(codes[0, 0])
    table, offsets = random(7 * NUM_GROUPS, WIDTH, seed=3), torch.arange(NUM_GROUPS, device=DEVICE)
    offsets = offsets * 7
    pending = random(NUM_SLOTS, WIDTH, seed=4)
    store = integers(7, NUM_SLOTS, KEPT, NUM_GROUPS, seed=5)
    (positions, made), kept = counts(), store.clone()
    before = positions.clone(), made.clone(), pending.clone()
    where = (table, offsets)
    frame.commit(INDEX, (codes, scores), end, where, (positions, made), pending, store)
    said = codes[:, :NUM_GROUPS]
    torch.testing.assert_close(pending[INDEX], table[said + offsets].sum(1))
    assert torch.equal(pending[[1, 2]], before[2][[1, 2]])
    assert codes[1, -1] == codes[2, -1] == 2
    assert all(int(row[-1]) == int(row[0] == end) for row in (codes[0], codes[3]))
    kept[INDEX, before[1][INDEX] % KEPT] = said
    assert torch.equal(store, kept)
    moved = torch.tensor([1, 0, 0, 1, 1, 0], device=DEVICE)
    assert torch.equal(positions, before[0] + moved)
    assert torch.equal(made, before[1] + moved)


def test_begin_pairs_a_state_with_the_code_drawn_from_it() -> None:
    states, table, norm = random(3, WIDTH), random(7, WIDTH, seed=1), random(WIDTH, seed=2)
    codes = integers(7, 3, 2, seed=3)[:, 1]
    begun = frame.begin(states, codes, table, norm)
    pairs = torch.stack((states, table[codes]), dim=1).flatten(0, 1)
    assert begun.num_positions == 2
    assert torch.equal(begun.states, pairs)
    torch.testing.assert_close(begun.scaled, pairs * norm)
    torch.testing.assert_close(begun.squares, pairs.square().sum(1, keepdim=True))
