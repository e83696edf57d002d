"""Draws out of a large vocabulary against the PyTorch lines they stand for."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from tests.kernels import DEVICE, why_not_here

if reason := why_not_here():
    pytest.skip(reason, allow_module_level=True)

from antiphon.contracts.sampling import NEUTRAL_SAMPLING
from antiphon.nn import kernels, token_sampler
from antiphon.nn.device_writes import PackedUpload
from antiphon.nn.sampler import seed_words
from antiphon.nn.token_sampler import TokenSampler, TokenStart

pytestmark = pytest.mark.gpu

PLAIN = NEUTRAL_SAMPLING
SAMPLINGS = (
    replace(PLAIN, temperature=0.0),
    PLAIN,
    replace(PLAIN, min_p=0.2),
    replace(PLAIN, temperature=0.7, top_k=20, top_p=0.8, repetition_penalty=1.05),
    replace(PLAIN, temperature=1.5, top_k=256),
    replace(PLAIN, temperature=2.0, top_k=256, top_p=0.9, min_p=0.01),
    replace(PLAIN, temperature=0.9, top_k=1),
    replace(PLAIN, top_k=9, top_p=0.01),
    replace(PLAIN, top_k=40, presence_penalty=1.5, frequency_penalty=0.5),
    replace(PLAIN, temperature=0.0, logit_bias={7: 30.0, 2: 29.0}),
)
NUM_ROWS = len(SAMPLINGS)


def samplers(vocab_size: int, monkeypatch: pytest.MonkeyPatch) -> tuple[TokenSampler, TokenSampler]:
    """Return one that draws by kernels, and one by PyTorch lines."""
    written = [each % vocab_size for each in (3, 3, 8, 50, 50, 50)]
    read = range(4, min(90, vocab_size))
    made = []
    for is_ours in (True, False):
        monkeypatch.setattr(kernels, "run_on", lambda tensor, is_ours=is_ours: is_ours)
        sampler = TokenSampler(
            NUM_ROWS + 1, vocab_size, PLAIN, torch.zeros(1, device=DEVICE),
            max_logprobs=4, max_biases=8,
        )  # fmt: skip
        uploads = PackedUpload(DEVICE)
        starts = [TokenStart(sampling=each, prompt=read, answer=written) for each in SAMPLINGS]
        sampler.write({slot: each for slot, each in enumerate(starts)}, uploads)
        uploads.send()
        made.append(sampler)
    return made[0], made[1]


def assert_same(
    pair: tuple[TokenSampler, TokenSampler], logits: Tensor, number: int = 5
) -> tuple[Tensor, Tensor]:
    slots = torch.arange(NUM_ROWS, device=DEVICE)
    seeds = torch.tensor([seed_words(2**50 + row) for row in range(NUM_ROWS)], device=DEVICE)
    draws = (seeds, torch.full((NUM_ROWS,), number, device=DEVICE))
    reach = pair[1].reach(range(NUM_ROWS))
    assert reach.filtering is token_sampler.Filtering.LIKELIEST
    tokens, scores = pair[0].sample(logits, slots, draws, reach)
    wanted, wanted_scores = pair[1].sample(logits, slots, draws, reach)
    is_number = wanted_scores.isfinite()
    assert torch.equal(scores.isfinite(), is_number)
    assert torch.equal(tokens[is_number], wanted[is_number])
    torch.testing.assert_close(scores[is_number], wanted_scores[is_number])
    return tokens, scores


@pytest.mark.parametrize("vocab_size", [9, 300, 5000, 40_001])
def test_tokens_are_those_of_pytorch_lines(
    vocab_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = samplers(vocab_size, monkeypatch)
    generator = torch.Generator().manual_seed(vocab_size)
    for number in range(3 if vocab_size < 1000 else 1):  # what was drawn is penalized then
        logits = 3 * torch.randn(NUM_ROWS, vocab_size, generator=generator).to(DEVICE)
        assert_same(pair, logits, number)


def test_likely_tokens_side_by_side_and_equals(monkeypatch: pytest.MonkeyPatch) -> None:
    vocab_size = 9000
    pair = samplers(vocab_size, monkeypatch)
    logits = torch.randn(NUM_ROWS, vocab_size, generator=torch.Generator().manual_seed(1))
    logits[:, 2000:2300] += 20.0
    logits[::2] = (logits[::2] * 4).round() / 4
    logits[:, 0] = -torch.inf
    assert_same(pair, logits.to(DEVICE))


@pytest.mark.filterwarnings("ignore:invalid value")  # NumPy tells of NaN in the interpreter
def test_what_is_no_number_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = samplers(3000, monkeypatch)
    logits = torch.randn(NUM_ROWS, 3000, generator=torch.Generator().manual_seed(1)).to(DEVICE)
    logits[::3, 5] = torch.nan
    logits[1] = torch.nan
    tokens, scores = assert_same(pair, logits)
    assert not scores[[0, 1, 3, 6]].isfinite().any()
    assert ((tokens >= 0) & (tokens < 3000)).all()


def test_half_precision_is_what_it_is_in_single(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = samplers(3000, monkeypatch)
    logits = torch.randn(NUM_ROWS, 3000, generator=torch.Generator().manual_seed(2)).half()
    assert_same(pair, logits.to(DEVICE))
