"""Every kernel of a step compiles for a GPU that is not there: an interpreter lets much pass.

Launches are compiled for compute capability 9.0 instead of run, in the types that a GPU uses, while
a whole runner makes frames out of nothing.
"""

import importlib
import pkgutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

pytest.importorskip("triton", reason="Triton is not installed")

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.jit import JITFunction

from antiphon.engine.plan import Start
from antiphon.models.qwen3_tts.config_reader import load_config
from antiphon.models.qwen3_tts.runner import load_runner
from antiphon.models.spec import LoadContext
from antiphon.nn import kernels
from tests.engine.drive import Drive
from tests.models.qwen3_tts.lm import made_prompt

TARGET = GPUTarget("cuda", 90, 32)
MAX_SHARED_BYTES = 227 * 1024
TYPES = {
    torch.float32: "*fp32",
    torch.bfloat16: "*bf16",
    torch.int64: "*i64",
    torch.int32: "*i32",
    torch.bool: "*i1",
}


class Compiler:
    """Stands in for the launching of kernels."""

    def __init__(self) -> None:
        self.shared_bytes: dict[tuple[str, str], int] = {}

    def run(self, kernel: Any, *values: Any, grid: Any, warmup: bool, **named: Any) -> None:
        options = {name: named.pop(name) for name in [*named] if name not in kernel.arg_names}
        given = {**dict(zip(kernel.arg_names, values, strict=False)), **named}
        signature: dict[str, str] = {}
        constants: dict[tuple[int], Any] = {}
        attributes: dict[tuple[int], list[list[Any]]] = {}
        for index, parameter in enumerate(kernel.params):
            value = given.get(parameter.name)
            if parameter.is_constexpr or value is None:
                signature[parameter.name], constants[(index,)] = "constexpr", value
            elif isinstance(value, Tensor):
                signature[parameter.name] = TYPES[value.dtype]
                attributes[(index,)] = [["tt.divisibility", 16]]
            else:
                signature[parameter.name] = "fp32" if isinstance(value, float) else "i32"
        key = (kernel.fn.__name__, str((signature, constants, options)))
        if key not in self.shared_bytes:
            source = ASTSource(kernel, signature, constexprs=constants, attrs=attributes)
            compiled = triton.compile(source, target=TARGET, options=options)
            self.shared_bytes[key] = compiled.metadata.shared


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> Compiler:
    found = Compiler()
    monkeypatch.setattr(JITFunction, "run", lambda kernel, *a, **k: found.run(kernel, *a, **k))
    monkeypatch.setattr(kernels, "run_on", lambda tensor: True)
    for name in ("empty", "empty_like"):  # nothing is computed, and what is read must be numbers
        monkeypatch.setattr(torch, name, vars(torch)[name.replace("empty", "zeros")])
    monkeypatch.setattr(Tensor, "new_empty", Tensor.new_zeros)
    for module in pkgutil.iter_modules(kernels.__path__):
        loaded = importlib.import_module(f"{kernels.__name__}.{module.name}")
        if "overlaps" in vars(loaded):
            monkeypatch.setattr(loaded, "overlaps", lambda tensor: True)
    return found


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Triton tells of changes to come
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_a_step_compiles(compiler: Compiler, checkpoint: Callable[..., Path], dtype: str) -> None:
    path = checkpoint("tiny", "custom_voice")
    runner = load_runner(LoadContext(path, "cpu", dtype, 8), is_batched=True)
    drive, config = Drive(runner), load_config(path)
    starts = tuple(Start(slot, made_prompt(config, seed=slot)) for slot in range(6))
    drive.step((0,), starts=starts[:1])
    drive.step(range(6), starts=starts[1:])
    names = {name for name, _ in compiler.shared_bytes}
    assert {
        "_thin_product",
        "_wide_product",
        "_decode",
        "decode_short",
        "_sample",
        "_draw",
    } <= names
    assert max(compiler.shared_bytes.values()) <= MAX_SHARED_BYTES


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
    names = {name for name, _ in compiler.shared_bytes}
    assert {"_embed", "_wide_product", "_decode", "_commit"} <= names
    assert "_sample" not in names, "their codes are known"
