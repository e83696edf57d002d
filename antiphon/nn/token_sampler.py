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

from antiphon.contracts.types import drawn_temperature
from antiphon.nn import kernels
from antiphon.nn.backends import backend_of
from antiphon.nn.packed_upload import PackedUpload

_MAX_TOP_K = 256  # limit up to which top-k avoids a full sort
_NUM_PARAMETERS = 8


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
class TokenSampling:
    """Parameters of a request, complete.

    Attributes:
        top_k: number of tokens kept; 0: all.
        repetition_penalty: penalty of tokens of prompt and answer.
        presence_penalty: penalty of tokens of the answer.
        frequency_penalty: penalty of tokens of the answer, per occurrence.
        logit_bias: bias by token.
        num_logprobs: number of alternatives returned beside the token itself; -1: no
            log-probabilities.
        holds_end: whether the end token is excluded from its first logits.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: Mapping[int, float]
    num_logprobs: int = -1
    holds_end: bool = False

    @property
    def is_adjusted(self) -> bool:
        """Whether the logits are changed by more than the temperature."""
        penalties = (self.repetition_penalty, self.presence_penalty, self.frequency_penalty)
        return penalties != (1.0, 0.0, 0.0) or bool(self.logit_bias)

    @property
    def reach(self) -> TokenReach:
        """Summary of these parameters for a step."""
        filtering = Filtering.SORTED
        if self.temperature == 0:
            filtering = Filtering.GREEDY
        elif not self.top_k and self.top_p >= 1.0:
            filtering = Filtering.DRAWN
        elif 0 < self.top_k <= _MAX_TOP_K:
            filtering = Filtering.LIKELIEST
        return TokenReach(
            filtering, self.is_adjusted, self.num_logprobs >= 0, holds_end=self.holds_end
        )


@dataclass(frozen=True, slots=True)
class TokenHistory:
    """Prompt and answer of a request at its start."""

    prompt: Sequence[int]
    answer: Sequence[int]


class TokenSampler:
    """Sampling parameters and token histories of every slot; the last one is for padding."""

    def __init__(
        self,
        num_rows: int,
        vocab_size: int,
        usual: TokenSampling,
        like: Tensor,
        *,
        max_logprobs: int,
        max_biases: int,
    ) -> None:
        """Start with idle slots.

        Args:
            num_rows: number of slots, including the one for padding.
            usual: parameters of most requests, for which graphs are captured first.
            like: tensor on the device.
            max_logprobs: most alternatives returned beside each token.
            max_biases: most biased tokens of a request.
        """
        device = like.device
        self._vocab_size, self._max_logprobs = vocab_size, max_logprobs
        self._backend = backend_of(like)
        # One graph serves all that needs less; without graphs each step does only its own work.
        self._least = usual.reach if kernels.run_on(like) else TokenReach()
        self._reaches = [TokenReach()] * num_rows
        self._parameters = torch.zeros(num_rows, _NUM_PARAMETERS, device=device)
        self._parameters[:, 1] = 1.0
        self._parameters[:, 4] = 1.0
        self._biased = torch.zeros(num_rows, max_biases, dtype=torch.int64, device=device)
        self._biases = torch.zeros(num_rows, max_biases, device=device)
        self._biased_slots: set[int] = set()
        size = (num_rows, vocab_size)
        self._is_read = torch.zeros(size, dtype=torch.bool, device=device)
        self._num_written = torch.zeros(size, dtype=torch.int32, device=device)
        self._codebook = torch.zeros(1, dtype=torch.int64, device=device)

    def write(
        self, starts: Mapping[int, tuple[TokenSampling, TokenHistory]], uploads: PackedUpload
    ) -> None:
        """Set parameters and histories by slot."""
        rows = np.zeros((len(starts), _NUM_PARAMETERS))
        for row, (slot, (each, _)) in zip(rows, starts.items(), strict=True):
            row[:] = (
                *(drawn_temperature(each.temperature), each.top_p, each.top_k, each.min_p),
                each.repetition_penalty,
                *(each.presence_penalty, each.frequency_penalty, each.num_logprobs),
            )
            self._reaches[slot] = each.reach
        uploads.write(self._parameters, np.array([*starts]), rows)
        adjusted = {slot: each for slot, each in starts.items() if each[0].is_adjusted}
        # Other rows' penalties make a step add biases to all of its rows.
        forgetting = {*adjusted, *(self._biased_slots & starts.keys())}
        self._biased_slots -= starts.keys()
        self._biased_slots |= {slot for slot in adjusted if adjusted[slot][0].logit_bias}
        if not forgetting:
            return
        uploads.add(self._forget, np.array([*forgetting], np.int64))
        for function, ids_of in ((self._read, 0), (self._wrote, 1)):
            places = [
                (slot, token)
                for slot, (_, history) in adjusted.items()
                for token in (history.prompt, history.answer)[ids_of]
            ]
            if places:
                uploads.add(function, np.array(places, np.int64).T)
        biases = [
            (slot, place, token, bias)
            for slot, (each, _) in adjusted.items()
            for place, (token, bias) in enumerate(each.logit_bias.items())
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
            reach: summary that covers all rows.

        Returns:
            Tokens, int64, and their scores, f32, both ``[num_rows]``. A score is NaN if the row's
            logits contained NaN.
        """
        if self._backend.has_kernels and reach.filtering is not Filtering.SORTED:
            from antiphon.nn.kernels import token_draw

            assert token_draw.MAX_TOP_K >= _MAX_TOP_K
            rules = token_draw.TokenRules(
                self._parameters,
                (self._is_read, self._num_written),
                (self._biased, self._biases),
            )
            return token_draw.draw_tokens(
                logits, slots, rules, draws, is_adjusted=reach.is_adjusted
            )
        logits, parameters = logits.float(), self._parameters[slots]
        temperature, top_p, top_k, min_p = parameters[:, :4, None].unbind(1)
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
            slots: slot of each row.
            tokens: drawn tokens.

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
        told: Any = torch.where(is_told, best.values - total[:, None], torch.nan)
        top_logprobs[:, :num_top] = told
        return torch.where(num_told < 0, torch.nan, own), top, top_logprobs

    def _adjusted(self, logits: Tensor, slots: Tensor, parameters: Tensor) -> Tensor:
        repetition, presence, frequency = parameters[:, 4:7, None].unbind(1)
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
        """Clear histories."""
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
