"""Steps by kernels: they compute what PyTorch lines do, and compile for a GPU that is not there."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("triton", reason="Triton is not installed")

from antiphon.engine.plan import Start
from antiphon.models.mimo_audio import random_configs
from antiphon.models.mimo_audio.random_checkpoint import make_checkpoint
from antiphon.models.mimo_audio.runner import load_runner
from antiphon.models.spec import LoadContext
from antiphon.nn import kernels
from tests.engine.drive import Drive
from tests.kernels import why_not_here
from tests.models.mimo_audio.speaking import DRAWN, GREEDY, frames_of, prompt_of
from tests.nn.kernels.compiler import Compiler
from tests.nn.kernels.test_compilation import compiler

__all__ = ["compiler"]


@pytest.mark.gpu
@pytest.mark.skipif(bool(why_not_here()), reason=why_not_here() or "they run here")
def test_frames_are_those_of_pytorch_lines(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = LoadContext(checkpoint, "cpu", "float32", 3)
    prompts = {
        0: prompt_of(checkpoint, "Hello", GREEDY),
        1: prompt_of(checkpoint, "Who is there?", DRAWN, seed=4),
    }
    wanted = frames_of(load_runner(context, is_batched=True), prompts, 3)
    if torch.cuda.is_available():
        context = replace(context, device="cuda")
    else:  # in Triton's interpreter
        monkeypatch.setattr(kernels, "run_on", lambda tensor: True)
    made = frames_of(load_runner(context, is_batched=True), prompts, 3)
    for slot, frames in wanted.items():
        np.testing.assert_array_equal(np.stack(made[slot]), np.stack(frames))


@pytest.mark.slow  # it compiles
@pytest.mark.filterwarnings("ignore")  # Triton tells of changes to come
def test_a_step_of_full_size_heads_compiles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    full, tiny = random_configs.main_config("7b", "bfloat16"), random_configs.main_config
    layers = {"num_hidden_layers": 1, "local_layers": 1, "input_local_layers": 1}
    share = {"num_attention_heads": 8, "num_key_value_heads": 2, "hidden_size": 1024}
    small = full | layers | share | {"intermediate_size": 1024, "vocab_size": 1024}
    codes = {key: tiny("tiny", "bfloat16")[key] for key in ("speech_vocab_size",)}
    empty = {"speech_zeroemb_idx": tiny("tiny", "bfloat16")["speech_zeroemb_idx"]}
    monkeypatch.setattr(random_configs, "main_config", lambda size, dtype: small | codes | empty)
    make_checkpoint(tmp_path)
    prompt = prompt_of(tmp_path, "Hello " * 6, DRAWN)
    context = LoadContext(tmp_path, "cpu", "bfloat16", 4)
    compiled: Compiler = request.getfixturevalue("compiler")  # not before: it fakes torch.empty
    drive = Drive(load_runner(context, is_batched=True))
    drive.step((0, 1), starts=[Start(0, prompt), Start(1, prompt)])
    drive.step((0, 1))
    assert {"_attend_tile", "_decode", "_noise", "_draw"} <= compiled.names
    assert not compiled.too_large()
