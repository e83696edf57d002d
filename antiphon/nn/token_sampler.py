"""Batched sampling of text tokens with parameters per row, for any vocabulary.

Penalties and biases change the logits; then temperature, top-k, top-p, min-p, and one draw by the
noise of `antiphon.nn.sampler`. All tokens at least as likely as the row's threshold are kept: equal
logits are kept or dropped together.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import torch
from torch import Tensor

from antiphon.contracts.chat_types import ChatSampling
from antiphon.contracts.sampling import (
    FREQUENCY_PENALTY,
    PRESENCE_PENALTY,
    REPETITION_PENALTY,
    device_values,
)
from antiphon.contracts.types import Sampling
from antiphon.nn import kernels
from antiphon.nn.backends import backend_of
from antiphon.nn.device_writes import PackedUpload

_MAX_TOP_K = 256  # limit up to which top-k avoids a full sort
_MIN_TOP_P = 1e-6  # less would be 0 in float32, which keeps no token


class Filtering(IntEnum):
    """Filtering that rows need, each level more than the one before."""

    GREEDY = 0  # no row draws
    DRAWN = 1  # neither top-k nor top-p
    LIKELIEST = 2  # every row with a top-p has a top-k too, a small one
    SORTED = 3


@dataclass(frozen=True, slots=True)
class TokenReach:
    """Summary of some rows' parameters that the host needs.

    Attributes:
        filtering: highest level of all rows.
        is_adjusted: whether any row's logits are penalized or biased.
        tells_logprobs: whether any row returns log-probabilities.
        holds_end: whether any row has a minimum of tokens before its end.
    """

    filtering: Filtering = Filtering.GREEDY
    is_adjusted: bool = False
    tells_logprobs: bool = False
    holds_end: bool = False

    def joined(self, other: "TokenReach") -> "TokenReach":
        """Return the reach that covers both."""
        return TokenReach(
            max(self.filtering, other.filtering),
            self.is_adjusted or other.is_adjusted,
            self.tells_logprobs or other.tells_logprobs,
            self.holds_end or other.holds_end,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenStart:
    """Sampling parameters and history of a request.

    Attributes:
        num_logprobs: number of alternatives returned beside the token itself; -1: no
            log-probabilities.
        holds_end: whether the end token is excluded from its first logits.
        prompt: tokens read.
        answer: tokens written so far.
    """

    sampling: ChatSampling | Sampling
    num_logprobs: int = -1
    holds_end: bool = False
    prompt: Sequence[int] = ()
    answer: Sequence[int] = ()

    @property
    def biases(self) -> Mapping[int, float]:
        biases = self.sampling.logit_bias if isinstance(self.sampling, ChatSampling) else None
        return biases or {}

    @property
    def row(self) -> list[float]:
        values = device_values(self.sampling)
        values["top_p"] = max(values["top_p"], _MIN_TOP_P)
        return [*values.values(), self.num_logprobs]

    @property
    def reach(self) -> TokenReach:
        """Summary of these parameters for a step."""
        values = device_values(self.sampling)
        is_adjusted = bool(self.biases) or any(
            values[each.name] != each.neutral
            for each in (REPETITION_PENALTY, PRESENCE_PENALTY, FREQUENCY_PENALTY)
        )
        filtering = Filtering.SORTED
        if values["temperature"] == 0:
            filtering = Filtering.GREEDY
        elif not values["top_k"] and values["top_p"] >= 1.0:
            filtering = Filtering.DRAWN
        elif 0 < values["top_k"] <= _MAX_TOP_K:
            filtering = Filtering.LIKELIEST
        return TokenReach(filtering, is_adjusted, self.num_logprobs >= 0, self.holds_end)


class TokenSampler:
    """Sampling parameters and token histories of every slot; the last one is for padding."""

    def __init__(
        self,
        num_rows: int,
        vocab_size: int,
        usual: ChatSampling | Sampling,
        like: Tensor,
        *,
        max_logprobs: int,
        max_biases: int,
    ) -> None:
        """Start with idle slots.

        Args:
            num_rows: number of slots, including the one for padding.
            usual: parameters of most requests, for which graphs are captured first.
            max_logprobs: most alternatives returned beside each token.
            max_biases: most biased tokens of a request.
        """
        device = like.device
        self._vocab_size, self._max_logprobs = vocab_size, max_logprobs
        self._backend = backend_of(like)
        # One graph serves all that needs less; without graphs each step does only its own work.
        self._least = TokenStart(sampling=usual).reach if kernels.run_on(like) else TokenReach()
        self._reaches = [TokenReach()] * num_rows
        idle = TokenStart(sampling=Sampling(temperature=0.0), num_logprobs=0).row
        self._parameters = torch.tensor(idle, device=device).repeat(num_rows, 1)
        self._biased = torch.zeros(num_rows, max_biases, dtype=torch.int64, device=device)
        self._biases = torch.zeros(num_rows, max_biases, device=device)
        self._biased_slots: set[int] = set()
        size = (num_rows, vocab_size)
        self._is_read = torch.zeros(size, dtype=torch.bool, device=device)
        self._num_written = torch.zeros(size, dtype=torch.int32, device=device)
        self._codebook = torch.zeros(1, dtype=torch.int64, device=device)

    def write(self, starts: Mapping[int, TokenStart], uploads: PackedUpload) -> None:
        """Set parameters and histories by slot."""
        for slot, start in starts.items():
            self._reaches[slot] = start.reach
        rows = np.array([start.row for start in starts.values()])
        uploads.write(self._parameters, np.array([*starts]), rows)
        adjusted = {
            slot: start for slot, start in starts.items() if self._reaches[slot].is_adjusted
        }
        # Other rows' penalties make a step add biases to all of its rows.
        forgetting = {*adjusted, *(self._biased_slots & starts.keys())}
        self._biased_slots -= starts.keys()
        self._biased_slots |= {slot for slot, start in adjusted.items() if start.biases}
        if not forgetting:
            return
        uploads.add(self._forget, np.array([*forgetting], np.int64))
        read = [(slot, token) for slot, start in adjusted.items() for token in start.prompt]
        wrote = [(slot, token) for slot, start in adjusted.items() for token in start.answer]
        for function, places in ((self._read, read), (self._wrote, wrote)):
            if places:
                uploads.add(function, np.array(places, np.int64).T)
        biases = [
            (slot, place, token, bias)
            for slot, start in adjusted.items()
            for place, (token, bias) in enumerate(start.biases.items())
        ]
        if biases:
            slots, places_of, tokens, values = zip(*biases, strict=True)
            numbers = np.array((slots, places_of, tokens), np.int64)
            uploads.add(self._bias, numbers, np.array(values, np.float64))

    def reach(self, slots: Sequence[int]) -> TokenReach:
        """Return the summary of the slots' parameters that the host needs to sample."""
        reach = self._least
        for slot in slots:
            reach = reach.joined(self._reaches[slot])
        return reach

    def sample(
        self, logits: Tensor, slots: Tensor, draws: tuple[Tensor, Tensor], reach: TokenReach
    ) -> tuple[Tensor, Tensor]:
        """Draw one token per row, and record it.

        Args:
            logits: ``[num_rows, vocab_size]``, of any type.
            slots: slot of each row, int64 ``[num_rows]``.
            draws: `antiphon.nn.sampler.seed_words` of the rows, and numbers of their tokens.

        Returns:
            Tokens, int64, and their scores, f32, both ``[num_rows]``. A score is NaN if the row's
            logits contained NaN.
        """
        if self._backend.has_kernels and reach.filtering is not Filtering.SORTED:
            from antiphon.nn.kernels import token_draw

            assert token_draw.MAX_TOP_K >= _MAX_TOP_K
            rules = token_draw.TokenRules(
                self._parameters, (self._is_read, self._num_written), (self._biased, self._biases)
            )
            return token_draw.draw_tokens(
                logits, slots, rules, draws, is_adjusted=reach.is_adjusted
            )
        logits, parameters = logits.float(), self._parameters[slots]
        temperature, top_k, top_p, _, min_p = parameters[:, :5, None].unbind(1)
        if reach.is_adjusted:
            logits = self._adjusted(logits, slots, parameters)
        if reach.filtering is Filtering.GREEDY:
            scores, tokens = logits.max(dim=-1)
        else:
            is_greedy = temperature == 0
            scores = logits / torch.where(is_greedy, 1.0, temperature)
            peak = scores.amax(dim=-1, keepdim=True)
            least = self._least_kept(scores, top_k, top_p, reach.filtering)
            least = torch.maximum(least, peak + min_p.log())
            noise = self._backend.gumbel_noise(*draws, self._codebook, self._vocab_size)[:, 0]
            noisy = scores + torch.where(is_greedy, 0.0, noise)
            noisy = noisy.masked_fill(scores < torch.minimum(least, peak), -torch.inf)
            scores, tokens = noisy.max(dim=-1)
        if reach.is_adjusted:
            self._wrote(torch.stack((slots, tokens)))
        return tokens, scores

    def logprobs(
        self, logits: Tensor, slots: Tensor, tokens: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return log-probabilities of tokens, before penalties and temperature.

        Args:
            logits: logits of the model, f32 ``[num_rows, vocab_size]``.

        Returns:
            The tokens' own, f32 ``[num_rows]``, NaN if not requested; the most likely tokens, int64
            ``[num_rows, max_logprobs]``, -1 if not requested; and theirs, f32, NaN there.
        """
        num_told = self._parameters[slots, 7]
        total = logits.logsumexp(dim=-1)
        own = logits.gather(-1, tokens[:, None])[:, 0] - total
        num_top = min(self._max_logprobs, self._vocab_size)
        best = torch.topk(logits, num_top, dim=-1)
        is_told = torch.arange(num_top, device=logits.device) < num_told[:, None]
        top = torch.full((len(slots), self._max_logprobs), -1, device=logits.device)
        top[:, :num_top] = torch.where(is_told, best.indices, -1)
        top_logprobs = torch.full_like(top, torch.nan, dtype=torch.float32)
        shown: Any = torch.where(is_told, best.values - total[:, None], torch.nan)
        top_logprobs[:, :num_top] = shown
        return torch.where(num_told < 0, torch.nan, own), top, top_logprobs

    def _adjusted(self, logits: Tensor, slots: Tensor, parameters: Tensor) -> Tensor:
        repetition, _, presence, frequency = parameters[:, 3:7, None].unbind(1)
        num_written = self._num_written[slots]
        is_written = num_written > 0
        penalized = torch.where(logits < 0, logits * repetition, logits / repetition)
        logits = torch.where(self._is_read[slots] | is_written, penalized, logits)
        logits = logits - frequency * num_written - presence * is_written
        return logits.scatter_add(1, self._biased[slots], self._biases[slots])

    def _least_kept(
        self, scores: Tensor, top_k: Tensor, top_p: Tensor, filtering: Filtering
    ) -> Tensor:
        """Return the smallest score of each row that top-k and top-p keep, ``[num_rows, 1]``."""
        everything = torch.full_like(top_p, -torch.inf)
        if filtering is Filtering.DRAWN:
            return everything
        if filtering is Filtering.LIKELIEST:
            num_ranks = min(_MAX_TOP_K, self._vocab_size)
            ranked = torch.topk(scores, num_ranks, dim=-1).values
        else:
            num_ranks = self._vocab_size
            ranked = scores.sort(dim=-1, descending=True).values
        num_kept = torch.where(top_k == 0, num_ranks, top_k).clamp(max=num_ranks).long()
        is_kept = ranked >= ranked.gather(-1, num_kept - 1)
        shares = ranked.masked_fill(~is_kept, -torch.inf).softmax(dim=-1)
        is_kept &= (shares.cumsum(dim=-1) - shares < top_p) | (top_p >= 1)
        least = ranked.masked_fill(~is_kept, torch.inf).amin(dim=-1, keepdim=True)
        return torch.where((top_k == 0) & (top_p >= 1), everything, least)

    def _forget(self, index: Tensor) -> None:
        self._is_read.index_fill_(0, index, value=False)
        self._num_written.index_fill_(0, index, 0)
        self._biases.index_fill_(0, index, 0.0)

    def _read(self, places: Tensor) -> None:
        self._is_read[places[0], places[1]] = True

    def _wrote(self, places: Tensor) -> None:
        flat = places[0] * self._vocab_size + places[1]
        once = torch.ones_like(flat, dtype=torch.int32)
        self._num_written.view(-1).scatter_add_(0, flat, once)

    def _bias(self, numbers: Tensor, values: Tensor) -> None:
        slots, places, tokens = numbers.unbind(0)
        self._biased[slots, places] = tokens
        self._biases[slots, places] = values.float()
