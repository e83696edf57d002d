"""The toy's language model: its logits follow a script, and are drawn from as real ones are."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from antiphon.contracts.chat_types import ChatSampling
from antiphon.contracts.family import LoadContext
from antiphon.contracts.prompt import Piece, Prompt
from antiphon.contracts.token_frame import MAX_LOGPROBS, TokenFrame
from antiphon.engine.runner import HostRunner
from antiphon.families.toy.chat import ToyDialogue
from antiphon.families.toy.vocabulary import END, VOCAB_SIZE

Logits = NDArray[np.float64]

_CERTAINTY = 12.0
"""By which the logit of the script's token is above others: 0.3 % leave it at temperature 1, and
half of all tokens at 2."""


@dataclass(slots=True)
class _State:
    dialogue: ToyDialogue
    seed: int
    first_end: int
    made: list[int]


class ToyChatRunner(HostRunner[_State]):
    """Steps any number of answers; a token depends on its own request alone."""

    def __init__(self, context: LoadContext) -> None:
        super().__init__(context.max_slots)

    def start(self, prompt: Prompt, frames: Sequence[NDArray[np.int64]]) -> _State:
        made = [TokenFrame.of(frame).token for frame in frames]
        return _State(prompt.data, prompt.seed, prompt.sampling.first_end, made)

    def append(self, state: _State, piece: Piece) -> None:
        raise AssertionError("conversations arrive as a whole")

    def next_frame(self, state: _State) -> NDArray[np.int64] | None:
        """Draw a token by (seed, its number in the answer); ``None``: it ends the answer."""
        number = len(state.made)
        likely = state.dialogue.likely
        logits = np.random.default_rng((number, *state.made[-1:])).random(VOCAB_SIZE)
        logits[likely[number] if number < len(likely) else END] += _CERTAINTY
        allowed = logits.copy()
        if number < state.first_end:
            allowed[END] = -np.inf
        shares = shares_of(allowed, state.dialogue.read, state.made, state.dialogue.sampling)
        draw = np.random.default_rng((state.seed, number)).random()
        token = min(int(np.searchsorted(np.cumsum(shares), draw, "right")), VOCAB_SIZE - 1)
        if token == END:
            return None
        state.made.append(token)
        logprobs = logits - np.log(np.sum(np.exp(logits)))
        top = np.argsort(-logprobs, kind="stable")[:MAX_LOGPROBS]
        return TokenFrame(
            token, float(logprobs[token]), top, logprobs[top].astype(np.float32)
        ).packed()


def shares_of(
    logits: Logits, read: Sequence[int], made: Sequence[int], sampling: ChatSampling
) -> Logits:
    """Return the probability of each token by all parameters of sampling."""
    logits = logits.copy()
    for token, bias in (sampling.logit_bias or {}).items():
        logits[token] += bias
    seen = np.array(sorted({*read, *made}), np.int64)
    factor = sampling.repetition_penalty or 1.0
    logits[seen] = np.where(logits[seen] > 0, logits[seen] / factor, logits[seen] * factor)
    counts = np.bincount(np.array(made, np.int64), minlength=VOCAB_SIZE)
    logits -= counts * (sampling.frequency_penalty or 0.0)
    logits -= (counts > 0) * (sampling.presence_penalty or 0.0)
    if not sampling.temperature:
        return np.asarray(np.arange(VOCAB_SIZE) == np.argmax(logits), np.float64)
    scaled = np.exp((logits - logits.max()) / sampling.temperature)
    shares: Logits = scaled / scaled.sum()
    ranks = np.argsort(np.argsort(-shares, kind="stable"))
    ordered = np.sort(shares)[::-1]
    before = np.concatenate(([0.0], np.cumsum(ordered)[:-1]))[ranks]
    kept = (before < (sampling.top_p or 1.0)) & (shares >= (sampling.min_p or 0.0) * shares.max())
    if sampling.top_k:
        kept &= ranks < sampling.top_k
    drawn: Logits = np.where(kept, shares, 0.0)
    drawn /= drawn.sum()
    return drawn
