"""The sampler against a plain one, its draws against their distribution, and their independence."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from antiphon.contracts.types import Sampling
from antiphon.nn.backends import TorchBackend
from antiphon.nn.device_writes import PackedUpload
from antiphon.nn.sampler import (
    RepetitionAware,
    SamplingRows,
    SamplingTable,
    gaussian_noise,
    gumbel_noise,
    keep_nucleus,
    penalize_repetition,
    sample,
    seed_words,
)
from tests.nn.chi_square import excess

CPU = torch.device("cpu")
PINNED_NOISE = [0.1208215, 2.0777807, -0.6851668, 3.4366767, 1.4027469, 0.8463863]


def noise_of(seeds: list[int], frame: int = 0, codebooks: int = 1, vocab_size: int = 8) -> Tensor:
    words = torch.tensor([seed_words(seed) for seed in seeds])
    frames = torch.full((len(seeds),), frame)
    return gumbel_noise(words, frames, torch.arange(codebooks), vocab_size)


def write(table: SamplingTable, samplings: dict[int, Sampling]) -> None:
    uploads = PackedUpload(CPU)
    table.write(samplings, uploads)
    uploads.send()


def rows_of(*samplings: Sampling, vocab_size: int) -> SamplingRows:
    table = SamplingTable(len(samplings), vocab_size, CPU)
    write(table, dict(enumerate(samplings)))
    slots = range(len(samplings))
    return table.rows(torch.tensor(slots), table.reach(slots))


def plain_probabilities(logits: list[float], sampling: Sampling) -> NDArray[np.float64]:
    """Filter and normalise one row the slow way, with ties at the top-k border kept."""
    assert sampling.temperature
    scores = [logit / sampling.temperature for logit in logits]
    if sampling.top_k:
        border = sorted(scores, reverse=True)[min(sampling.top_k, len(scores)) - 1]
        scores = [score if score >= border else -math.inf for score in scores]
    weights = [math.exp(score) for score in scores]
    if sampling.top_p is not None and sampling.top_p < 1:
        total, cumulated = sum(weights), 0.0
        *order, _ = sorted(range(len(weights)), key=lambda token: scores[token])
        for token in order:
            cumulated += weights[token] / total
            if cumulated <= 1 - sampling.top_p:
                weights[token] = 0.0
    return np.array(weights) / sum(weights)


SAMPLINGS = [
    Sampling(temperature=1.0),
    Sampling(temperature=0.7, top_k=5),
    Sampling(temperature=0.9, top_p=0.8),
    Sampling(temperature=1.3, top_k=7, top_p=0.6),
    Sampling(temperature=0.9, top_k=1),
    Sampling(temperature=0.9, top_p=1e-6),
]


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=str)
def test_draws_follow_the_distribution(sampling: Sampling) -> None:
    num_draws = 20_000
    logits = np.random.default_rng(7).normal(scale=1.5, size=12).tolist()
    rows = rows_of(sampling, vocab_size=12)
    rows = SamplingRows(
        rows.temperature.expand(num_draws),
        rows.top_k.expand(num_draws),
        rows.top_p.expand(num_draws),
        rows.repetition_penalty.expand(num_draws),
        rows.reach,
    )
    noise = noise_of(list(range(num_draws)), vocab_size=12)[:, 0]
    drawn, _ = sample(torch.tensor(logits).expand(num_draws, -1), rows, noise)
    counts = np.bincount(drawn.numpy(), minlength=12)
    assert excess(counts, plain_probabilities(logits, sampling)) < 1


@pytest.mark.parametrize("varied", ["frame", "codebook"])
def test_draws_of_one_seed_follow_the_distribution(varied: str) -> None:
    num_draws = 20_000
    count = torch.arange(num_draws)
    words = torch.tensor([seed_words(2**52 + 12345)])
    if varied == "frame":
        noise = gumbel_noise(words.expand(num_draws, -1), count, torch.tensor([3]), 10)[:, 0]
    else:
        noise = gumbel_noise(words, torch.tensor([5]), count, 10)[0]
    probabilities = torch.linspace(0.01, 0.19, 10)
    drawn = (probabilities.log() + noise).argmax(-1)
    counts = np.bincount(drawn.numpy(), minlength=10)
    assert excess(counts, probabilities.numpy()) < 1
    pairs = np.bincount((drawn[:-1] * 10 + drawn[1:]).numpy(), minlength=100)
    joint = np.outer(probabilities.numpy(), probabilities.numpy()).ravel()
    assert excess(pairs, joint) < 1, "neighbouring draws are not independent"


def test_noise_has_the_moments_of_gumbel() -> None:
    noise = noise_of(list(range(50)), codebooks=16, vocab_size=1000).flatten()
    assert noise.isfinite().all()
    assert float(noise.mean()) == pytest.approx(0.5772, abs=0.01)
    assert float(noise.var()) == pytest.approx(math.pi**2 / 6, abs=0.02)


def test_seeds_frames_codebooks_and_tokens_all_matter() -> None:
    seeds = [0, 1, 2**32, 2**52, 2**63 - 1]
    noise = torch.stack([noise_of(seeds, frame=frame, codebooks=3) for frame in range(3)])
    rows = noise.flatten(end_dim=-2)
    assert len({tuple(row) for row in rows.tolist()}) == 3 * 5 * 3
    assert all(len(set(row)) == 8 for row in rows.tolist())
    columns = np.corrcoef(noise_of(list(range(3000)))[:, 0].T.numpy())
    assert np.abs(columns - np.eye(8)).max() < 0.1, "tokens are not independent"


def test_noise_never_changes() -> None:
    """These values are what makes a seed mean the same audio in later versions."""
    noise = noise_of([42], frame=7, codebooks=2, vocab_size=3).flatten().tolist()
    assert noise == pytest.approx(PINNED_NOISE, rel=1e-6)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_a_row_draws_alone_what_it_draws_in_any_batch(data: st.DataObject) -> None:
    vocab_size = 40
    num_rows = data.draw(st.integers(1, 6))
    order = data.draw(st.permutations(range(num_rows)))
    samplings = [
        Sampling(
            temperature=data.draw(st.sampled_from([0.0, 0.3, 1.0])),
            top_k=data.draw(st.sampled_from([0, 1, 5, 100])),
            top_p=data.draw(st.sampled_from([0.2, 0.9, 1.0])),
        )
        for _ in range(num_rows)
    ]
    logits = torch.from_numpy(
        np.random.default_rng(num_rows).normal(size=(num_rows, vocab_size)).astype(np.float32)
    )
    seeds = list(range(100, 100 + num_rows))
    frame = data.draw(st.integers(0, 5000))
    table = SamplingTable(num_rows, vocab_size, CPU)
    for slot, row in enumerate(order):  # rows sit in slots in another order
        write(table, {slot: samplings[row]})
    noise = noise_of([seeds[row] for row in order], frame, 1, vocab_size)[:, 0]
    together, _ = sample(
        logits[list(order)],
        table.rows(torch.arange(num_rows), table.reach(range(num_rows))),
        noise,
    )
    for slot, row in enumerate(order):
        alone, _ = sample(
            logits[row : row + 1],
            rows_of(samplings[row], vocab_size=vocab_size),
            noise_of([seeds[row]], frame, 1, vocab_size)[:, 0],
        )
        assert alone[0] == together[slot]


def test_greedy_takes_the_likeliest_whatever_the_noise() -> None:
    logits = torch.tensor([[0.0, 3.0, 2.0], [5.0, 3.0, 2.0]])
    rows = rows_of(Sampling(temperature=0.0), Sampling(temperature=0.0, top_k=1), vocab_size=3)
    noise = torch.tensor([[100.0, 0.0, 0.0], [0.0, 100.0, 0.0]])
    assert sample(logits, rows, noise)[0].tolist() == [1, 0]


def test_ties_at_the_border_of_top_k_are_all_kept() -> None:
    logits = torch.tensor([[1.0, 1.0, 1.0, 0.0]])
    rows = rows_of(Sampling(temperature=1.0, top_k=2), vocab_size=4)
    draws = {
        int(sample(logits, rows, noise_of([seed], vocab_size=4)[:, 0])[0]) for seed in range(60)
    }
    assert draws == {0, 1, 2}


def test_the_penalty_strikes_what_has_occurred_once() -> None:
    logits = torch.tensor([[2.0, -2.0, 4.0], [2.0, -2.0, 4.0]])
    has_occurred = torch.tensor([[True, True, False], [True, True, False]])
    penalized = penalize_repetition(logits, has_occurred, torch.tensor([2.0, 1.0]))
    assert penalized.tolist() == [[1.0, -4.0, 4.0], [2.0, -2.0, 4.0]]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_numbers_that_are_none_show_in_their_own_row_only(bad: float) -> None:
    logits = torch.zeros(3, 8)
    logits[1, 4] = bad
    rows = rows_of(*[Sampling(temperature=0.9, top_k=3, top_p=0.9)] * 3, vocab_size=8)
    drawn, scores = sample(logits, rows, noise_of([1, 2, 3], vocab_size=8)[:, 0])
    assert scores.isfinite().tolist() == [True, False, True]
    assert ((drawn >= 0) & (drawn < 8)).all()


def test_forbidden_tokens_are_never_drawn() -> None:
    logits = torch.full((200, 8), -torch.inf)
    logits[:, 2] = -50.0
    rows = rows_of(*[Sampling(temperature=1.0, top_k=5)] * 200, vocab_size=8)
    drawn, scores = sample(logits, rows, noise_of(list(range(200)), vocab_size=8)[:, 0])
    assert (drawn == 2).all()
    assert scores.isfinite().all()


def test_a_repeated_token_is_drawn_from_the_whole_distribution() -> None:
    num_draws, vocab_size = 20_000, 12
    logits = torch.tensor(np.random.default_rng(3).normal(scale=1.5, size=vocab_size)).float()
    likeliest = int(logits.argmax())
    narrow = Sampling(temperature=0.8, top_k=1)
    rows = rows_of(*([narrow] * num_draws), vocab_size=vocab_size)
    noise = noise_of(list(range(num_draws)), codebooks=2, vocab_size=vocab_size)
    recent = torch.full((num_draws, 10), -1)
    recent[:, 4] = likeliest
    hook = RepetitionAware(recent, noise[:, 1])
    every = logits.expand(num_draws, -1)
    drawn, scores = TorchBackend().sample(every, rows, noise[:, 0], [hook])
    whole = plain_probabilities(logits.tolist(), Sampling(temperature=0.8))
    assert excess(np.bincount(drawn.numpy(), minlength=vocab_size), whole) < 1
    assert scores.isfinite().all()


def test_tokens_that_are_not_repeated_stay_and_so_do_greedy_ones() -> None:
    rows = rows_of(Sampling(temperature=0.8, top_k=1), Sampling(temperature=0.0), vocab_size=8)
    logits = torch.arange(8.0).expand(2, -1)
    noise = noise_of([1, 2], codebooks=2)
    recent = torch.tensor([[-1, 0, 1, 2, 3, 4, 5, 6, 0, 1], [7] * 10])
    hook = RepetitionAware(recent, noise[:, 1])
    plain, hooked = (
        TorchBackend().sample(logits, rows, noise[:, 0], each) for each in ([], [hook])
    )
    assert torch.equal(plain[0], hooked[0])
    assert torch.equal(plain[1], hooked[1])


def gaussian(seeds: list[int], frame: int = 0, indices: int = 1, size: int = 8) -> Tensor:
    words = torch.tensor([seed_words(seed) for seed in seeds])
    frames = torch.full((len(seeds),), frame)
    return gaussian_noise(words, frames, torch.arange(indices), size)


@pytest.mark.parametrize("varied", ["seed", "frame", "index", "size"])
def test_gaussian_noise_is_normal(varied: str) -> None:
    number = 40_000
    if varied == "seed":
        numbers = gaussian(list(range(number)), size=1)
    elif varied == "frame":
        words = torch.tensor([seed_words(5)]).expand(number, -1)
        numbers = gaussian_noise(words, torch.arange(number), torch.arange(1), 1)
    elif varied == "index":
        numbers = gaussian([5], indices=number, size=1)
    else:
        numbers = gaussian([5], size=number + 1)[..., :-1]
    values = numbers.flatten().double()
    error = number**-0.5
    assert abs(values.mean()) < 4 * error
    assert abs(values.square().mean() - 1) < 4 * error * 2**0.5
    assert abs((values**3).mean()) < 4 * error * 15**0.5
    assert abs((values**4).mean() - 3) < 4 * error * 96**0.5
    edges = torch.linspace(-3, 3, 25, dtype=torch.float64)
    below = (1 + torch.erf(edges / 2**0.5)) / 2
    shares = torch.diff(below, prepend=torch.zeros(1), append=torch.ones(1)).numpy()
    counts = np.bincount(torch.bucketize(values, edges).numpy(), minlength=len(shares))
    assert excess(counts, shares) < 1


def test_gaussian_noise_is_the_same_in_any_batch_and_of_any_size() -> None:
    together = gaussian([3, 1, 2**60], frame=7, indices=3, size=9)
    assert torch.equal(gaussian([1], frame=7, indices=3, size=9)[0], together[1])
    assert torch.equal(gaussian([2**60, 5], frame=7, size=4)[0], together[2, :1, :4])
    pairs = torch.corrcoef(gaussian([3], size=2000).view(-1, 2).T)  # of one transform
    assert abs(pairs[0, 1]) < 0.1
    assert not torch.equal(together[0], gaussian([3], frame=8, indices=3, size=9)[0])


def plain_nucleus(logits: list[float], top_k: int, top_p: float) -> set[int]:
    """Return the tokens that are kept by probabilities before temperature, the slow way."""
    weights = [math.exp(logit) for logit in logits]
    kept: set[int] = set()
    cumulated = 0.0
    for token in sorted(range(len(logits)), key=lambda each: -logits[each]):
        cumulated += weights[token] / sum(weights)
        if kept and (len(kept) >= top_k or (cumulated > top_p and top_p < 1)):
            break
        kept.add(token)
    return kept


@settings(max_examples=60)
@given(
    st.lists(st.integers(-40, 40), min_size=8, max_size=8, unique=True),
    st.integers(1, 8),
    st.one_of(st.floats(0.05, 0.9999), st.just(1.0)),  # nearer to 1, it is 1 in float32
)
def test_a_nucleus_is_kept_by_probabilities_before_temperature(
    tenths: list[int], top_k: int, top_p: float
) -> None:
    logits = [tenth / 10 for tenth in tenths]
    sampling = Sampling(temperature=0.3, top_k=top_k, top_p=top_p)
    rows = rows_of(sampling, Sampling(temperature=0.9, top_k=8, top_p=1.0), vocab_size=8)
    kept = keep_nucleus(torch.tensor([logits, logits]), rows).isfinite()
    assert set(kept[0].nonzero().flatten().tolist()) == plain_nucleus(logits, top_k, top_p)
    assert kept[1].all()
    plain = rows.unfiltered(8)
    noise = noise_of([5, 6])
    expected = (torch.tensor(logits) / 0.3).masked_fill(~kept[0], -math.inf) + noise[0, 0]
    drawn, _ = sample(keep_nucleus(torch.tensor([logits, logits]), rows), plain, noise[:, 0])
    assert drawn[0] == expected.argmax()


def test_what_is_drawn_again_can_be_drawn_otherwise() -> None:
    rows = rows_of(*[Sampling(temperature=0.5, top_k=8)] * 2, vocab_size=8)
    logits, noise = torch.arange(8.0).expand(2, -1), torch.zeros(2, 8)

    def least(logits: Tensor, rows: SamplingRows, noise: Tensor) -> tuple[Tensor, Tensor]:
        return logits.argmin(dim=-1), logits.amin(dim=-1)

    hook = RepetitionAware(torch.tensor([[7, -1], [6, -1]]), noise, max_share=0.5, redraw=least)
    drawn, _ = TorchBackend().sample(logits, rows, noise, [hook])
    assert drawn.tolist() == [0, 7]


@pytest.mark.parametrize("temperature", [1e-7, 1e-38, 1e-40, 5e-324])
def test_a_temperature_that_float32_cannot_divide_by_takes_the_likeliest(
    temperature: float,
) -> None:
    rows = rows_of(Sampling(temperature=temperature), vocab_size=12)
    logits = torch.linspace(-80, 80, 12)[None]
    drawn, scores = sample(logits, rows, noise_of([1], vocab_size=12)[:, 0])
    assert drawn.tolist() == [11]
    assert scores.isfinite().all()
