"""Draws of tokens: what is kept, how often each comes, and penalties as transformers has them."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from antiphon.contracts.chat_types import ChatSampling
from antiphon.contracts.sampling import NEUTRAL_SAMPLING, device_values
from antiphon.nn.device_writes import PackedUpload
from antiphon.nn.sampler import seed_words
from antiphon.nn.token_sampler import Filtering, TokenReach, TokenSampler, TokenStart

VOCAB_SIZE = 300
PLAIN = NEUTRAL_SAMPLING


def sampler_of(
    *samplings: ChatSampling, vocab_size: int = VOCAB_SIZE, **start: Any
) -> TokenSampler:
    """Return one with these parameters in its first slots; ``start`` has the rest of them."""
    like = torch.zeros(1)
    sampler = TokenSampler(
        len(samplings) + 1, vocab_size, PLAIN, like, max_logprobs=20, max_biases=8
    )
    uploads = PackedUpload(like.device)
    starts = [TokenStart(sampling=each, **start) for each in samplings]
    sampler.write({slot: each for slot, each in enumerate(starts)}, uploads)
    uploads.send()
    return sampler


def draw(
    sampler: TokenSampler, logits: Tensor, slots: list[int], frames: list[int], seed: int = 3
) -> list[int]:
    seeds = torch.tensor([seed_words(seed)] * len(slots))
    draws = (seeds, torch.tensor(frames))
    tokens, scores = sampler.sample(logits, torch.tensor(slots), draws, sampler.reach(slots))
    assert scores.isfinite().all()
    drawn: list[int] = tokens.tolist()
    return drawn


def kept_by_transformers(logits: Tensor, sampling: ChatSampling) -> Tensor:
    """Return the probabilities that transformers would draw from."""
    from transformers import (
        LogitsProcessorList,
        MinPLogitsWarper,
        TemperatureLogitsWarper,
        TopKLogitsWarper,
        TopPLogitsWarper,
    )

    values = device_values(sampling)
    warpers: list[Any] = [TemperatureLogitsWarper(values["temperature"])]
    if sampling.top_k:
        warpers.append(TopKLogitsWarper(sampling.top_k))
    warpers += [TopPLogitsWarper(values["top_p"]), MinPLogitsWarper(values["min_p"])]
    processed: Tensor = LogitsProcessorList(warpers)(torch.zeros(1, 1), logits[None])
    return processed[0].softmax(-1)


CASES = [
    PLAIN,
    replace(PLAIN, temperature=0.6, top_k=20, top_p=0.8),
    replace(PLAIN, temperature=1.4, top_p=0.7),
    replace(PLAIN, temperature=1.4, top_p=0.95, top_k=280),
    replace(PLAIN, temperature=1.2, min_p=0.1),
    replace(PLAIN, temperature=0.9, top_k=30, min_p=0.05),
]


@pytest.mark.parametrize("sampling", CASES)
def test_tokens_come_as_often_as_transformers_would_draw_them(sampling: ChatSampling) -> None:
    logits = torch.randn(VOCAB_SIZE, generator=torch.Generator().manual_seed(1)) * 2
    shares = kept_by_transformers(logits, sampling).numpy()
    num_draws = 5000
    sampler = sampler_of(sampling)
    found = np.zeros(VOCAB_SIZE, np.int64)
    for first in range(0, num_draws, 1000):
        numbers = [*range(first, first + 1000)]
        tokens = draw(sampler, logits.expand(1000, -1), [0] * 1000, numbers)
        found += np.bincount(tokens, minlength=VOCAB_SIZE)
    assert not found[shares == 0].any(), "a token was drawn that is dropped"
    is_usual = shares * num_draws >= 5
    wanted = np.append(shares[is_usual], shares[~is_usual].sum()) * num_draws
    counted = np.append(found[is_usual], found[~is_usual].sum())
    wanted, counted = wanted[wanted > 0], counted[wanted > 0]
    degrees = max(len(wanted) - 1, 1)
    chi_square = ((counted - wanted) ** 2 / wanted).sum()
    assert chi_square < degrees + 3 * (2 * degrees) ** 0.5


def test_rows_are_drawn_as_if_they_were_alone() -> None:
    samplings = [*CASES, replace(PLAIN, temperature=0.0), replace(PLAIN, frequency_penalty=2.0)]
    logits = torch.randn(len(samplings), VOCAB_SIZE, generator=torch.Generator().manual_seed(2))
    slots = [*range(len(samplings))]
    together = draw(sampler_of(*samplings), logits, slots, slots)
    alone = [
        draw(sampler_of(*samplings), logits[slot : slot + 1], [slot], [slot])[0] for slot in slots
    ]
    assert together == alone
    assert together[len(CASES)] == int(logits[len(CASES)].argmax())


def test_the_host_asks_for_no_more_than_rows_need() -> None:
    reaches = [TokenStart(sampling=each).reach.filtering for each in CASES]
    assert reaches[0] is Filtering.DRAWN
    assert reaches[1] is Filtering.LIKELIEST
    assert reaches[2] is Filtering.SORTED
    greedy = replace(PLAIN, temperature=0.0, top_p=0.5)
    sampler = sampler_of(greedy, greedy, replace(greedy, presence_penalty=1.0))
    sampler.write(
        {1: TokenStart(sampling=greedy, num_logprobs=0)}, PackedUpload(torch.device("cpu"))
    )
    assert sampler.reach([0]) == TokenReach()
    assert sampler.reach([0, 1]) == TokenReach(tells_logprobs=True)
    assert sampler.reach([0, 2]) == TokenReach(is_adjusted=True)


def test_repetition_is_penalized_as_in_transformers() -> None:
    from transformers import RepetitionPenaltyLogitsProcessor

    prompt, answer = [3, 7, 7], [9, 3]
    sampling = replace(PLAIN, temperature=0.0, repetition_penalty=1.8)
    sampler = sampler_of(sampling, prompt=prompt, answer=answer)
    processor: Any = RepetitionPenaltyLogitsProcessor(1.8)
    generator = torch.Generator().manual_seed(4)
    read = [*prompt, *answer]
    for number in range(30):
        logits = torch.randn(1, VOCAB_SIZE, generator=generator)
        logits[0, 3], logits[0, 9] = 4.0, 3.9
        wanted = int(processor(torch.tensor([read]), logits).argmax())
        assert draw(sampler, logits, [0], [number]) == [wanted]
        read.append(wanted)


def test_presence_and_frequency_count_the_answer_only() -> None:
    sampling = replace(PLAIN, temperature=0.0, presence_penalty=1.0, frequency_penalty=0.5)
    sampler = sampler_of(sampling, prompt=(5, 5), answer=(6, 6))
    logits = torch.zeros(1, VOCAB_SIZE)
    logits[0, 6], logits[0, 5] = 2.1, 0.05
    # 6 has been written twice: 1 for its presence, and 0.5 for each time.
    drawn = [draw(sampler, logits, [0], [number])[0] for number in range(2)]
    assert drawn == [6, 5]
    again = sampler_of(sampling, prompt=(5, 5), answer=(6, 6, 6))
    assert draw(again, logits, [0], [0]) == [5]


def test_a_slot_forgets_the_request_before() -> None:
    first = replace(PLAIN, temperature=0.0, presence_penalty=2.0, logit_bias={4: 9.0})
    sampler = sampler_of(first, answer=(7,))
    logits = torch.zeros(1, VOCAB_SIZE)
    logits[0, 7] = 1.0
    assert draw(sampler, logits, [0], [0]) == [4]
    uploads = PackedUpload(logits.device)
    second = replace(PLAIN, temperature=0.0, presence_penalty=2.0)
    sampler.write({0: TokenStart(sampling=second)}, uploads)
    uploads.send()
    assert draw(sampler, logits, [0], [0]) == [7]


def test_a_slot_forgets_biases_beside_a_row_with_penalties() -> None:
    biased = replace(PLAIN, temperature=0.0, logit_bias={4: 9.0})
    penalized = replace(PLAIN, temperature=0.0, presence_penalty=2.0)
    sampler = sampler_of(biased, penalized)
    logits = torch.zeros(2, VOCAB_SIZE)
    logits[:, 7] = 1.0
    assert draw(sampler, logits, [0, 1], [0, 0]) == [4, 7]
    uploads = PackedUpload(logits.device)
    sampler.write({0: TokenStart(sampling=replace(PLAIN, temperature=0.0))}, uploads)
    uploads.send()
    assert draw(sampler, logits, [0, 1], [1, 1])[0] == 7


def test_what_is_no_number_is_told() -> None:
    sampler = sampler_of(PLAIN, replace(PLAIN, temperature=0.0), CASES[1], CASES[2])
    logits = torch.zeros(4, VOCAB_SIZE)
    logits[:, 5] = torch.nan
    seeds = torch.tensor([seed_words(1)] * 4)
    draws = (seeds, torch.arange(4))
    _, scores = sampler.sample(logits, torch.arange(4), draws, sampler.reach([0, 1, 2, 3]))
    assert not scores.isfinite().any()


def test_a_small_vocabulary_has_fewer_likely_tokens_than_there_is_room_for() -> None:
    sampler = sampler_of(PLAIN, num_logprobs=20, vocab_size=4)
    logits = torch.tensor([[1.0, 3.0, 2.0, 0.0]])
    own, top, values = sampler.logprobs(logits, torch.tensor([0]), torch.tensor([2]))
    assert top[0, :5].tolist() == [1, 2, 0, 3, -1]
    wanted = logits.log_softmax(-1)[0]
    torch.testing.assert_close(own[0], wanted[2])
    torch.testing.assert_close(values[0, :4], wanted[[1, 2, 0, 3]])
    assert values[0, 4:].isnan().all()


@pytest.mark.parametrize("temperature", [1e-7, 1e-38, 1e-40, 5e-324])
def test_a_temperature_that_float32_cannot_divide_by_takes_the_likeliest(
    temperature: float,
) -> None:
    sampler = sampler_of(replace(PLAIN, temperature=temperature))
    logits = torch.linspace(-80, 80, VOCAB_SIZE)[None]
    assert draw(sampler, logits, [0], [0]) == [VOCAB_SIZE - 1]


def test_a_top_p_that_float32_has_no_number_for_keeps_the_likeliest() -> None:
    logits = torch.randn(1, VOCAB_SIZE, generator=torch.Generator().manual_seed(5))
    sampler = sampler_of(replace(PLAIN, top_p=1e-300), replace(PLAIN, top_p=1e-300, top_k=9))
    assert draw(sampler, logits.expand(2, -1), [0, 1], [0, 1]) == [int(logits.argmax())] * 2
