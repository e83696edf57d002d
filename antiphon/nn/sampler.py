"""Batched sampling of codes with parameters per row and counter-based randomness.

The order is that of the reference implementations: penalties on f32 logits, then temperature,
top-k, top-p, and one draw. The draw adds Gumbel noise and takes the maximum; a noise value is a
function of (seed, frame, codebook, token) alone, so a request draws the same codes alone, in any
batch or slot, and after a move to another machine.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from antiphon.contracts.sampling import NUM_COLUMNS, device_values
from antiphon.contracts.types import Sampling
from antiphon.nn import kernels
from antiphon.nn.device_writes import PackedUpload

_WORD = 0xFFFFFFFF
_START = 0x9E3779B9  # any value but zero, which the mixing leaves unchanged


@dataclass(frozen=True, slots=True)
class SamplingReach:
    """Summary of some rows' parameters that the host needs.

    Attributes:
        max_top_k: upper bound of the rows' top-k.
        uses_top_p: whether any row's ``top_p`` is below 1.
    """

    max_top_k: int
    uses_top_p: bool


@dataclass(frozen=True, slots=True)
class SamplingRows:
    """Parameters of a batch, one row each, shape ``[num_rows]``.

    Attributes:
        temperature: 0 takes the most likely token.
        top_k: number of tokens kept, at least 1; ties with the last one are kept too.
    """

    temperature: Tensor
    top_k: Tensor
    top_p: Tensor
    repetition_penalty: Tensor
    reach: SamplingReach

    def unfiltered(self, vocab_size: int) -> "SamplingRows":
        """Return the rows without top-k and top-p, for logits after a `LogitsFilter`."""
        return replace(
            self,
            top_k=torch.full_like(self.top_k, vocab_size),
            top_p=torch.ones_like(self.top_p),
            reach=SamplingReach(vocab_size, uses_top_p=False),
        )


class SamplingTable:
    """Sampling parameters of every slot, written at a request's start and gathered every step.

    Attributes:
        parameters: columns of `antiphon.contracts.sampling.PARAMETERS`, whose top-k is exact in
            f32; ``[num_slots, NUM_COLUMNS]``.
    """

    def __init__(self, num_slots: int, vocab_size: int, device: torch.device) -> None:
        self._vocab_size = vocab_size
        self._uses_kernels = kernels.run_on(torch.empty(0, device=device))
        self.parameters = torch.ones(num_slots, NUM_COLUMNS, device=device)
        self._host_top_k = [1] * num_slots
        self._host_top_p = [1.0] * num_slots

    def write(self, samplings: Mapping[int, Sampling], uploads: PackedUpload) -> None:
        """Set parameters by slot; ``None`` and a ``top_k`` of 0 turn a filter off."""
        rows = np.zeros((len(samplings), NUM_COLUMNS))
        for row, (slot, sampling) in zip(rows, samplings.items(), strict=True):
            values = device_values(sampling)
            self._host_top_p[slot] = values["top_p"]
            top_k = int(values["top_k"]) or self._vocab_size
            values["top_k"] = self._host_top_k[slot] = min(top_k, self._vocab_size)
            row[: len(values)] = [*values.values()]
        uploads.write(self.parameters, np.array([*samplings]), rows)

    def reach(self, slots: Sequence[int]) -> SamplingReach:
        """Return the summary of the slots' parameters that the host needs to sample.

        Kernels read each row's own parameters: one graph serves all rows.
        """
        if self._uses_kernels:
            return SamplingReach(self._vocab_size, uses_top_p=False)
        largest = max((self._host_top_k[slot] for slot in slots), default=1)
        return SamplingReach(largest, any(self._host_top_p[slot] < 1.0 for slot in slots))

    def rows(self, index: Tensor, reach: SamplingReach) -> SamplingRows:
        """Gather the rows of slots, ``index`` on the device; ``reach`` covers all of them."""
        temperature, top_k, top_p, repetition_penalty = self.parameters[index].unbind(1)[:4]
        return SamplingRows(temperature, top_k.long(), top_p, repetition_penalty, reach)


def penalize_repetition(logits: Tensor, has_occurred: Tensor, penalty: Tensor) -> Tensor:
    """Make tokens that have occurred less likely, once each.

    Args:
        logits: f32, shape ``[num_rows, vocab_size]``.
        has_occurred: bool, same shape.
        penalty: shape ``[num_rows]``; 1 changes nothing.
    """
    by_row = penalty[:, None]
    penalized = torch.where(logits < 0, logits * by_row, logits / by_row)
    return torch.where(has_occurred, penalized, logits)


SamplerHook: TypeAlias = Callable[
    [Tensor, SamplingRows, tuple[Tensor, Tensor]], tuple[Tensor, Tensor]
]
"""Inspects the tokens and scores drawn from logits, and may replace them."""
LogitsFilter: TypeAlias = Callable[[Tensor, SamplingRows], Tensor]
"""Masks tokens with ``-inf`` in place of top-k and top-p; ``[num_rows, vocab_size]``."""
Draw: TypeAlias = Callable[[Tensor, SamplingRows, Tensor], tuple[Tensor, Tensor]]
"""Draws a token of each row from logits, parameters and noise, as `sample` does."""


def draw_from_all(logits: Tensor, rows: SamplingRows, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Draw from the whole distribution, without top-k and top-p; otherwise as `sample`."""
    heat = torch.where(rows.temperature > 0, rows.temperature, 1.0)
    best = torch.max(logits.float() / heat[:, None] + noise, dim=-1)
    return best.indices, best.values


@dataclass(frozen=True, slots=True)
class RepetitionAware:
    """Repetition-aware sampling (VALL-E 2, as in CosyVoice): redraw tokens that repeat too often.

    If the drawn token exceeds its share of the latest tokens, it is redrawn, from the whole
    distribution unless ``redraw`` does otherwise. Greedy rows are unchanged.

    Attributes:
        recent: latest tokens of each row, int64 ``[num_rows, window]``, -1 if unset; see
            `antiphon.engine.model_runner.ar_model.SlotState.recent`.
        noise: `gumbel_noise` of another codebook number, shape of the logits.
        max_share: share of the window from which on a token is redrawn.
        redraw: draw function; Fish Speech uses a higher temperature and keeps the filters.
    """

    recent: Tensor
    noise: Tensor
    max_share: float = 0.1
    redraw: Draw = draw_from_all

    def __call__(
        self, logits: Tensor, rows: SamplingRows, drawn: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, Tensor]:
        tokens, scores = drawn
        num_said = (self.recent == tokens[:, None]).sum(1)
        is_repeated = num_said >= self.max_share * self.recent.shape[1]
        is_repeated &= rows.temperature > 0
        again, again_scores = self.redraw(logits, rows, self.noise)
        return (
            torch.where(is_repeated, again, tokens),
            torch.where(is_repeated, again_scores, scores),
        )


def sample(logits: Tensor, rows: SamplingRows, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Draw one token a row.

    Args:
        logits: shape ``[num_rows, vocab_size]``, penalties applied, ``-inf`` where forbidden.
        noise: `gumbel_noise`, shape of the logits.

    Returns:
        Tokens, int64, and their scores, f32, both ``[num_rows]``. A score is finite unless the
        row's logits contained NaN.
    """
    is_greedy = rows.temperature == 0
    scores = logits.float() / torch.where(is_greedy, 1.0, rows.temperature)[:, None]
    largest = torch.topk(scores, rows.reach.max_top_k, dim=-1).values
    smallest_kept = largest.gather(-1, rows.top_k[:, None] - 1)
    scores = scores.masked_fill(scores < smallest_kept, -torch.inf)
    if rows.reach.uses_top_p:
        scores = _keep_top_p(scores, rows.top_p)
    best = torch.max(scores + torch.where(is_greedy[:, None], 0.0, noise), dim=-1)
    return best.indices, best.values


def _keep_top_p(scores: Tensor, top_p: Tensor) -> Tensor:
    """Drop the least likely tokens while the rest keeps a probability of ``top_p``."""
    ascending, order = scores.sort(dim=-1)
    cumulated = ascending.softmax(-1).cumsum(-1)
    drop = (cumulated <= 1 - top_p[:, None]) & (top_p[:, None] < 1)
    drop[:, -1] = False
    return scores.masked_fill(drop.scatter(-1, order, drop), -torch.inf)


def keep_nucleus(logits: Tensor, rows: SamplingRows) -> Tensor:
    """Filter by probabilities before temperature, as Fish Speech does; a `LogitsFilter`.

    The most likely token is kept, and further ones while their cumulative probability is at most
    ``top_p``, up to ``top_k``. (`sample` keeps one more, which makes it at least ``top_p``, after
    temperature and among those of top-k.)

    Args:
        logits: logits of any type, shape ``[num_rows, vocab_size]``.
    """
    if kernels.run_on(logits):
        from antiphon.nn.kernels.nucleus import nucleus

        return nucleus(logits, rows.top_k, rows.top_p)
    logits = logits.float()
    ranked = torch.topk(logits, rows.reach.max_top_k, dim=-1).values
    shares = (ranked - logits.logsumexp(dim=-1, keepdim=True)).exp().cumsum(dim=-1)
    top_p = rows.top_p[:, None]
    is_kept = (shares <= top_p) | (top_p >= 1)
    is_kept &= torch.arange(ranked.shape[1], device=ranked.device) < rows.top_k[:, None]
    is_kept[:, 0].fill_(value=True)
    least = ranked.masked_fill(~is_kept, torch.inf).amin(dim=-1, keepdim=True)
    return logits.masked_fill(logits < least, -torch.inf)


def seed_words(seed: int) -> tuple[int, int]:
    """Return the low and the high 32 bits of a seed."""
    return seed & _WORD, (seed >> 32) & _WORD


def gumbel_noise(seeds: Tensor, frames: Tensor, codebooks: Tensor, vocab_size: int) -> Tensor:
    """Return noise that turns the maximum of scores into a draw from their softmax.

    Args:
        seeds: `seed_words` of each row, int64, shape ``[num_rows, 2]``.
        frames: frame number of each row, int64, shape ``[num_rows]``.
        codebooks: int64, shape ``[num_codebooks]``.

    Returns:
        f32, shape ``[num_rows, num_codebooks, vocab_size]``.
    """
    uniform = uniform_noise(seeds, frames, codebooks, vocab_size)
    return uniform.log_().neg_().log_().neg_()


def gaussian_noise(seeds: Tensor, frames: Tensor, indices: Tensor, size: int) -> Tensor:
    """Return numbers of the standard normal distribution, a function of (seed, frame, index).

    By Box and Muller's transform of counter-based numbers; none is beyond 5.8 deviations.

    Args:
        seeds: `seed_words` of each row, int64, shape ``[num_rows, 2]``.
        frames: frame number of each row, int64, shape ``[num_rows]``.
        indices: counter of each vector, such as a diffusion step, int64, shape ``[num_indices]``.
        size: numbers per index; the first ones do not depend on it.

    Returns:
        f32, shape ``[num_rows, num_indices, size]``.
    """
    return gaussian_of(uniform_noise(seeds, frames, indices, size + size % 2))[..., :size]


def gaussian_of(uniform: Tensor) -> Tensor:
    """Return normal numbers of uniform ones strictly between 0 and 1, ``[..., even number]``."""
    radius = uniform[..., ::2].log().mul_(-2).sqrt_()
    angle = uniform[..., 1::2] * (2 * math.pi)
    pairs = torch.stack((radius * angle.cos(), radius * angle.sin()), dim=-1)
    return pairs.flatten(-2)


def uniform_noise(seeds: Tensor, frames: Tensor, indices: Tensor, size: int) -> Tensor:
    """Return multiples of 2**-24 strictly between 0 and 1, exact in f32; see `gaussian_noise`."""
    low = _mixed(seeds[:, 0] ^ _START)
    high = _mixed(seeds[:, 1] ^ low)
    low = _mixed(low ^ frames)
    high = _mixed(high ^ low)
    low = _mixed(low[:, None] ^ indices)
    high = _mixed(high[:, None] ^ low)
    tokens = torch.arange(size, device=seeds.device)
    bits = _mixed(low[..., None] ^ tokens)
    bits = _mixed((bits + high[..., None]) & _WORD)
    return ((bits >> 9).float() + 0.5) * 2.0**-23


def _mixed(words: Tensor) -> Tensor:
    """Scramble 32-bit words held in int64; a bijection whose products stay below 2**63."""
    words = words ^ (words >> 16)
    words = (words * 0x21F0AAAD) & _WORD
    words = words ^ (words >> 15)
    words = (words * 0x735A2D97) & _WORD
    return words ^ (words >> 15)
