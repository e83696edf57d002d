"""The toy's draws follow its probabilities, and it goes on after tokens as if it had made them."""

import numpy as np
import pytest

from antiphon.contracts.chat_types import ChatRequest, ChatSampling, Message
from antiphon.contracts.family import LoadContext
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.token_frame import TokenFrame
from antiphon.families.toy.chat import ToyChatPrompter
from antiphon.families.toy.chatter import ToyChatRunner, shares_of
from antiphon.families.toy.vocabulary import VOCAB_SIZE

PROMPTER = ToyChatPrompter(LoadContext())
LOGITS = np.zeros(VOCAB_SIZE)
LOGITS[:4] = 4.0, 3.0, 2.0, -1.0


def prompt(**sampling: float) -> Prompt:
    request = ChatRequest((Message("user", "Hello"),), sampling=ChatSampling(**sampling))  # type: ignore[arg-type]
    return PROMPTER.build(request, 5)


def test_an_answer_goes_on_after_its_tokens() -> None:
    runner = ToyChatRunner(LoadContext())
    hot = prompt(temperature=2.0)
    whole = runner.start(hot, ())
    frames = [runner.next_frame(whole) for _ in range(12)]
    made = [frame for frame in frames[:7] if frame is not None]
    assert len(made) == 7, "this seed ends later"
    resumed = runner.start(hot, made)
    for frame in frames[7:]:
        again = runner.next_frame(resumed)
        assert (again is None) == (frame is None)
        assert again is None or frame is None or np.array_equal(again, frame)


def test_logprobs_are_those_of_the_distribution() -> None:
    runner = ToyChatRunner(LoadContext())
    made = runner.next_frame(runner.start(prompt(temperature=0.0), ()))
    assert made is not None
    frame = TokenFrame.of(made)
    assert frame.token == frame.top_tokens[0]
    assert frame.logprob == pytest.approx(float(frame.top_logprobs[0]))
    assert np.all(np.diff(frame.top_logprobs) <= 0)
    assert np.exp(frame.top_logprobs.astype(np.float64)).sum() < 1


@pytest.mark.parametrize(
    ("sampling", "kept"),
    [
        (ChatSampling(temperature=0.0), {0}),
        (ChatSampling(temperature=1.0, top_k=2), {0, 1}),
        (ChatSampling(temperature=1.0, min_p=0.3), {0, 1}),
        (ChatSampling(temperature=0.1, top_p=0.5), {0}),
        (ChatSampling(temperature=0.0, logit_bias={1: 2.0}), {1}),
        (ChatSampling(temperature=0.0, presence_penalty=1.5), {1}),
        (ChatSampling(temperature=0.0, frequency_penalty=1.0), {1}),
        (ChatSampling(temperature=0.0, repetition_penalty=2.0), {1}),
    ],
)
def test_parameters_of_sampling(sampling: ChatSampling, kept: set[int]) -> None:
    shares = shares_of(LOGITS, [2], [0, 0], sampling)
    assert {int(token) for token in np.flatnonzero(shares)} == kept
    assert shares.sum() == pytest.approx(1.0)
