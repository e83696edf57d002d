"""Steps by kernels: they compute what PyTorch lines do, and compile for a GPU that is not there."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="Triton is not installed")

from antiphon.contracts.chat_types import ChatSampling
from antiphon.contracts.family import LoadContext
from antiphon.engine.plan import Start
from antiphon.families.causal_lm.language_model import load_runner
from antiphon.families.causal_lm.prompt import CausalLMPrompter
from antiphon.families.causal_lm.sizes import make_checkpoint as without_weights
from tests.engine.drive import Drive, tokens_of
from tests.families.causal_lm.answers import ask, greedy
from tests.kernels import why_not_here, with_kernels
from tests.nn.kernels.compiler import Compiler
from tests.nn.kernels.test_compilation import compiler

__all__ = ["compiler"]

DRAWN = ChatSampling(temperature=1.1, top_p=0.9, top_k=40, repetition_penalty=1.1)
SHARE_OF_7B = {
    "hidden_size": 896,
    "intermediate_size": 1024,
    "num_hidden_layers": 1,
    "num_attention_heads": 7,
    "num_key_value_heads": 1,
    "head_dim": 128,
    "vocab_size": 152064,
}
"""Sizes of one attention head of eight."""


@pytest.mark.gpu
@pytest.mark.skipif(bool(why_not_here()), reason=why_not_here() or "they run here")
@pytest.mark.parametrize("layout", ["qwen2", "qwen3"])
def test_answers_are_those_of_pytorch_lines(
    checkpoint_of: Callable[[str], Path],
    layout: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    context = LoadContext(checkpoint_of(layout), "cpu", "float32", 3)
    prompter = CausalLMPrompter(context)
    prompts = {
        0: greedy(prompter, "Hello", max_tokens=6),
        1: prompter.build(ask("Who is there?", sampling=DRAWN, max_tokens=6, num_logprobs=2), 4),
    }
    wanted = tokens_of(load_runner(context, is_batched=True), prompts)
    context = with_kernels(context, monkeypatch)
    assert tokens_of(load_runner(context, is_batched=True), prompts) == wanted


@pytest.mark.slow  # it compiles
@pytest.mark.filterwarnings("ignore")  # Triton tells of changes to come
@pytest.mark.parametrize("layout", ["qwen2", "qwen3"])
def test_a_step_of_full_size_heads_compiles(
    tmp_path: Path, layout: str, request: pytest.FixtureRequest
) -> None:
    without_weights(tmp_path, task=layout)
    file = tmp_path / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text(encoding="utf-8")) | SHARE_OF_7B))
    context = LoadContext(tmp_path, "cpu", "bfloat16", 4, load_format="dummy")
    prompter = CausalLMPrompter(context)
    prompt = prompter.build(ask("Hello " * 20, sampling=DRAWN, num_logprobs=5), 1)
    compiled: Compiler = request.getfixturevalue("compiler")  # not before: it fakes torch.empty
    drive = Drive(load_runner(context, is_batched=True))
    drive.step((0, 1), starts=[Start(0, prompt), Start(1, prompt)])
    drive.step((0, 1))
    expected = {"_attend_tile", "_decode", "_score_tokens", "_find_candidates", "_draw_candidate"}
    assert expected | {"_end_token_step"} <= compiled.names
    assert not compiled.too_large()
