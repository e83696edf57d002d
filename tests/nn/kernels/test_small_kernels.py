"""Every kernel against the PyTorch lines it stands for, on a GPU or in Triton's interpreter."""

import pytest
import torch

from tests.kernels import DEVICE, random, why_not_here

if reason := why_not_here():
    pytest.skip(reason, allow_module_level=True)

from antiphon.nn import kernels
from antiphon.nn.backends import backend_of
from antiphon.nn.kernels import pointwise, sampling
from antiphon.nn.kernels.nucleus import nucleus
from antiphon.nn.layers import RMSNorm
from antiphon.nn.sampler import (
    SamplingReach,
    SamplingRows,
    gumbel_noise,
    keep_nucleus,
    sample,
    seed_words,
)

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def _plain_references(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the references run as PyTorch lines on a GPU too."""
    monkeypatch.setattr(kernels, "_HAS_TRITON", False)


@pytest.mark.parametrize("width", [48, 64])
def test_norm_and_sum(width: int) -> None:
    states, branch, weight = random(5, width), random(5, width, seed=1), random(width, seed=2)
    norm = RMSNorm(weight, 1e-6)
    torch.testing.assert_close(pointwise.rms_norm(states, weight, 1e-6), norm(states))
    sums, normed = pointwise.add_rms_norm(states, branch, weight, 1e-6)
    assert torch.equal(sums, states + branch)
    torch.testing.assert_close(normed, norm(states + branch))


def test_heads_have_norms_of_their_own() -> None:
    heads, weight = random(5, 3, 64), random(3, 64, seed=2)
    expected = RMSNorm(weight, 1e-6)(heads)
    torch.testing.assert_close(pointwise.rms_norm(heads, weight, 1e-6), expected)


def test_gate() -> None:
    gate_up = random(3, 2, 96)
    gate, up = gate_up.chunk(2, dim=-1)
    product = pointwise.silu_product(gate_up)
    torch.testing.assert_close(product, torch.nn.functional.silu(gate) * up)


def test_noise_is_the_same_to_the_bit() -> None:
    seeds = torch.tensor([seed_words(2**60 + 12345), seed_words(7)], device=DEVICE)
    frames, codebooks = torch.tensor([5, 4000], device=DEVICE), torch.arange(4, device=DEVICE)
    uniform = sampling.uniform(seeds, frames, codebooks, 100)
    assert torch.equal(-torch.log(-torch.log(uniform)), gumbel_noise(seeds, frames, codebooks, 100))


@pytest.mark.parametrize("size", [64, 7])
def test_gaussian_noise_is_that_of_pytorch_lines(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeds = torch.tensor([seed_words(2**40 + 5), seed_words(9)], device=DEVICE)
    frames, indices = torch.tensor([0, 77], device=DEVICE), torch.arange(2, device=DEVICE)
    wanted = backend_of(seeds).gaussian_noise(seeds, frames, indices, size)
    monkeypatch.setattr(kernels, "run_on", lambda tensor: True)
    ours = backend_of(seeds).gaussian_noise(seeds, frames, indices, size)
    assert ours.shape == (2, 2, size)
    assert torch.equal(ours, wanted)


@pytest.mark.parametrize("top_p", [1.0, 0.9, 0.5, 0.01])
@pytest.mark.parametrize("top_k", [1, 2, 50, 300])
def test_draws_are_the_same_to_the_bit(top_k: int, top_p: float) -> None:
    logits = random(4, 300).bfloat16()
    if top_p < 1.0:  # which of several equals are dropped is open
        logits = random(4, 300)
    logits[:, 10] = -torch.inf
    logits[3, 5] = torch.nan
    rows = SamplingRows(
        temperature=torch.tensor([0.0, 0.9, 0.3, 1.1], device=DEVICE),
        top_k=torch.tensor([top_k, top_k, 1, 7], device=DEVICE),
        top_p=torch.tensor([top_p, top_p, 1.0, top_p], device=DEVICE),
        repetition_penalty=torch.ones(4, device=DEVICE),
        reach=SamplingReach(300, uses_top_p=top_p < 1.0),
    )
    noise = random(4, 3, 300, seed=1)[:, 1]
    parameters = (rows.temperature, rows.top_k, rows.top_p)
    tokens, scores = sampling.draw(logits, parameters, noise)
    expected_tokens, expected_scores = sample(logits, rows, noise)
    assert torch.equal(tokens[:3], expected_tokens[:3])
    assert torch.equal(scores[:3], expected_scores[:3])
    assert scores[3].isnan()


@pytest.mark.parametrize("top_p", [1.0, 0.9, 0.5, 0.01])
@pytest.mark.parametrize("top_k", [1, 3, 30, 300])
@pytest.mark.parametrize("step", [0.0, 0.5], ids=["distinct", "many_equal"])
def test_the_same_nucleus_is_kept(top_k: int, top_p: float, step: float) -> None:
    logits = 2 * random(4, 300)
    if step:
        logits = (logits / step).round() * step
    logits[:, 10] = -torch.inf
    logits[1, 20:] = -torch.inf
    counts = torch.tensor([top_k, 7, 1, top_k], device=DEVICE)
    shares = torch.tensor([top_p, top_p, 1.0, 0.7], device=DEVICE)
    ones = torch.ones_like(shares)
    rows = SamplingRows(ones, counts, shares, ones, SamplingReach(300, uses_top_p=True))
    expected = keep_nucleus(logits, rows)
    assert torch.equal(nucleus(logits, counts, shares), expected)
    if step:  # bfloat16 holds them all
        assert torch.equal(nucleus(logits.bfloat16(), counts, shares).float(), expected)
    logits[3, 5] = torch.nan
    assert nucleus(logits, counts, shares)[3, 5].isnan()


@pytest.mark.filterwarnings("ignore:invalid value")  # NumPy tells of NaN in the interpreter
def test_a_draw_of_nothing_but_nan_is_a_token() -> None:
    logits = random(3, 300).float()
    logits[:2] = torch.nan
    parameters = (
        torch.tensor([0.0, 0.9, 0.9], device=DEVICE),
        torch.full((3,), 300, device=DEVICE),
        torch.tensor([1.0, 0.9, 1.0], device=DEVICE),
    )
    tokens, scores = sampling.draw(logits, parameters, random(3, 300, seed=1))
    assert ((tokens >= 0) & (tokens < 300)).all()
    assert scores.isnan().tolist() == [True, True, False]
