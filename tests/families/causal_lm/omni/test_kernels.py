"""By kernels the thinker tells, and the talker says, what they do by PyTorch lines."""

from dataclasses import replace

import numpy as np
import pytest
import torch

pytest.importorskip("triton", reason="Triton is not installed")

from antiphon.contracts.family import LoadContext
from antiphon.contracts.types import Sampling
from antiphon.families.causal_lm.language_model import load_runner
from antiphon.families.causal_lm.omni.talker import load_talker
from antiphon.families.causal_lm.omni.token2wav import load_token2wav
from antiphon.families.causal_lm.prompt import CausalLMPrompter
from tests.families.causal_lm.omni.answers import asked, said, told_of
from tests.families.causal_lm.omni.test_token2wav import codes_of, decoded
from tests.kernels import why_not_here, with_kernels

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(bool(why_not_here()), reason=why_not_here() or "they run here"),
]
DRAWN = Sampling(temperature=0.9, top_p=0.8, top_k=20, repetition_penalty=1.05, max_frames=8)


def test_codes_are_those_of_pytorch_lines(
    context: LoadContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompt = asked(CausalLMPrompter(context), "Hi", max_tokens=4)
    wanted = told_of(load_runner(context, is_batched=True), prompt)
    wanted_codes = said(load_talker(context, is_batched=True), wanted[1], DRAWN)
    context = with_kernels(context, monkeypatch)
    tokens, told = told_of(load_runner(context, is_batched=True), prompt)
    assert tokens == wanted[0]
    for each, other in zip(told, wanted[1], strict=True):
        assert each.start == other.start
        np.testing.assert_allclose(each.states, other.states, rtol=0, atol=1e-4)
    assert said(load_talker(context, is_batched=True), told, DRAWN) == wanted_codes


@pytest.mark.skipif(not torch.cuda.is_available(), reason="it has no kernels of its own")
def test_audio_is_that_of_the_host(context: LoadContext) -> None:
    streams = [codes_of(number, num_codes) for number, num_codes in enumerate((14, 5, 9))]
    wanted = decoded(load_token2wav(context), streams)
    made = decoded(load_token2wav(replace(context, device="cuda")), streams)
    for audio, expected in zip(made, wanted, strict=True):
        np.testing.assert_allclose(audio, expected, rtol=0, atol=1e-3)
