"""Every kernel of a step compiles for a GPU that is not there: an interpreter lets much pass.

Launches are compiled for compute capability 9.0 instead of run, in the types that a GPU uses, while
a whole runner makes frames out of nothing.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

pytest.importorskip("triton", reason="Triton is not installed")

from antiphon.contracts.family import LoadContext
from antiphon.engine.plan import Start
from antiphon.families.qwen3_tts.config_reader import load_config
from antiphon.families.qwen3_tts.language_model import load_runner
from antiphon.nn.device_writes import PackedUpload, RowWriter
from antiphon.nn.graphs import Graphs
from tests.engine.drive import Drive
from tests.families.qwen3_tts.lm import made_prompt
from tests.nn.kernels.compiler import H200, Compiler, compiling


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> Compiler:
    for name in ("empty", "empty_like"):  # nothing is computed, and what is read must be numbers
        monkeypatch.setattr(torch, name, vars(torch)[name.replace("empty", "zeros")])
    monkeypatch.setattr(Tensor, "new_empty", Tensor.new_zeros)
    return compiling(monkeypatch, H200)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Triton tells of changes to come
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_a_step_compiles(compiler: Compiler, checkpoint: Callable[..., Path], dtype: str) -> None:
    path = checkpoint("tiny", "base")
    runner = load_runner(LoadContext(path, "cpu", dtype, 8), is_batched=True)
    drive, config = Drive(runner), load_config(path)
    frames = (None, None, 0, 3, None, 1)  # of the recording whose voice speaks
    starts = tuple(
        Start(slot, made_prompt(config, seed=slot, num_reference_frames=count))
        for slot, count in enumerate(frames)
    )
    drive.step((0,), starts=starts[:1])
    drive.step(range(6), starts=starts[1:])
    assert {
        "_write_rows",
        "_embed_columns",
        "_put_frames",
        "_thin_product",
        "wide_product",
        "_decode",
        "decode_short",
        "_sample",
        "_draw",
    } <= compiler.names
    assert not compiler.too_large()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_frames_that_are_made_again_compile(
    compiler: Compiler, checkpoint: Callable[..., Path]
) -> None:
    path = checkpoint("tiny", "custom_voice")
    context = LoadContext(path, "cpu", "bfloat16", 8, is_deterministic=True)
    runner = load_runner(context, is_batched=True)
    drive, config = Drive(runner), load_config(path)
    frames = tuple(np.zeros((3, config.talker.num_groups), np.int64))
    prompt = made_prompt(config, seed=1)
    drive.step(starts=[Start(slot, prompt, frames[:slot]) for slot in range(1, 4)])
    assert {"_embed", "wide_product", "_decode", "_commit"} <= compiler.names
    assert "_sample" not in compiler.names, "their codes are known"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_writes_by_a_graph_compile(compiler: Compiler) -> None:
    device = torch.device("cpu")
    uploads = PackedUpload(device, RowWriter(Graphs(device), device))
    uploads.write(torch.zeros(3, 5), np.array([1]), np.ones((1, 4)))
    uploads.send()
    assert compiler.names == {"_write_counted_rows"}
    assert not compiler.too_large()
