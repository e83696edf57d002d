"""Compiles launches of kernels for a GPU that is not there, instead of running them.

What a launch takes of shared memory is known once it is lowered to LLVM's language. Of kernels that
differ in constants alone, the first is translated to PTX and assembled; the others stop there.
"""

import importlib
import pkgutil
import re
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import pytest
import torch
import triton
from torch import Tensor
from triton import knobs
from triton._C.libtriton import llvm
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.jit import JITFunction

from antiphon.nn import kernels

TYPES = {
    torch.float32: "*fp32",
    torch.float16: "*fp16",
    torch.bfloat16: "*bf16",
    torch.int64: "*i64",
    torch.int32: "*i32",
    torch.int8: "*i8",
    torch.bool: "*i1",
}
_BFLOAT16, _EARLY_LAUNCH = 80, 90  # the first compute capabilities that have them


@dataclass(frozen=True, slots=True)
class Card:
    """A GPU.

    Attributes:
        capability: compute capability, times ten.
        shared_bytes: that a program may have.
    """

    name: str
    capability: int
    shared_bytes: int

    def __str__(self) -> str:
        return self.name

    @property
    def dtype(self) -> torch.dtype:
        """Type of a language model's weights; float16 overflows in Qwen3-TTS."""
        return torch.float32 if self.capability < _BFLOAT16 else torch.bfloat16

    @property
    def overlaps(self) -> bool:
        return self.capability >= _EARLY_LAUNCH

    @property
    def generation(self) -> int:
        """Cards of one are compiled for alike: see `tests/nn/kernels/test_generations.py`."""
        return self.capability // 10


H200 = Card("H200", 90, 227 * 1024)
CARDS = (
    Card("T4", 75, 64 * 1024),
    Card("A100", 80, 163 * 1024),
    Card("RTX 3090", 86, 99 * 1024),
    Card("RTX 4090", 89, 99 * 1024),
    H200,
    Card("RTX 5090", 120, 99 * 1024),
)


@dataclass(frozen=True, slots=True)
class Launch:
    """Compilation of a kernel as it is launched.

    ``signature`` has types of arguments by name; ``constants`` and ``attributes`` are by place.
    """

    kernel: Any
    signature: dict[str, str]
    constants: dict[tuple[int], Any]
    options: dict[str, Any]
    attributes: dict[tuple[int], list[list[Any]]]

    @property
    def types(self) -> str:
        """Of its arguments, without the values of any."""
        return str(self.signature)

    def __str__(self) -> str:
        return str((self.signature, self.constants, self.options))

    def compiled(self, capability: int) -> Any:
        source = ASTSource(
            self.kernel, self.signature, constexprs=self.constants, attrs=self.attributes
        )
        target = GPUTarget("cuda", capability, 32)
        return triton.compile(source, target=target, options=self.options)


_shared_bytes: dict[tuple[int, str, str], int] = {}
"""By generation, name and launch: all cards of a process and all of its tests share them."""
_assembled: set[tuple[int, str, str]] = set()
"""By generation, name and types."""


def _until_llvm(
    backend: Any = None, stages: Any = None, options: Any = None, language: Any = None, *more: Any
) -> tuple[str, str] | None:
    """Leave out a compilation's last stages, most of its time; see Triton's knobs.

    Shared memory is given out before LLVM optimizes what it got.
    """
    if stages is None:
        return ("until LLVM", "until LLVM")  # a part of the key of its cache

    lower = stages["llir"]

    def lower_only(source: Any, metadata: dict[str, Any]) -> str:
        with mock.patch.object(llvm, "optimize_module"):
            lowered: str = lower(source, metadata)
        return lowered

    def translate(llir: str, metadata: dict[str, Any]) -> str:
        metadata["name"] = "not translated"
        return ""

    stages["llir"] = lower_only
    stages["ptx"], stages["cubin"] = translate, lambda ptx, metadata: b""
    return None


@dataclass(slots=True)
class Compiler:
    """Stands in for the launching of kernels.

    Attributes:
        shared_bytes: of each kernel, by its name and what it was compiled for.
        launches: of all kernels so far.
    """

    card: Card
    shared_bytes: dict[tuple[str, str], int] = field(default_factory=dict)
    launches: list[Launch] = field(default_factory=list)

    @property
    def names(self) -> set[str]:
        return {name for name, _ in self.shared_bytes}

    def too_large(self) -> list[str]:
        """Return the kernels that take more shared memory than the card has."""
        most = self.card.shared_bytes
        return [f"{key} takes {size}" for key, size in self.shared_bytes.items() if size > most]

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
        launch = Launch(kernel, signature, constants, options, attributes)
        self.launches.append(launch)
        name = kernel.fn.__name__
        key = (self.card.generation, name, str(launch))
        if key not in _shared_bytes:
            like = (self.card.generation, name, launch.types)
            with knobs.runtime.scope():
                if like in _assembled:
                    knobs.runtime.add_stages_inspection_hook = _until_llvm
                compiled = launch.compiled(self.card.capability)
            _shared_bytes[key] = compiled.metadata.shared
            assert not overwritten_early(compiled.asm["ttgir"]), f"{key} reads what is overwritten"
            _assembled.add(like)
        self.shared_bytes[name, str(launch)] = _shared_bytes[key]


def overwritten_early(ttgir: str) -> set[str]:
    """Return the buffers of a loop that are overwritten while a product on Hopper still reads them.

    Of a factor that threads load as well, Triton keeps as many copies as if the product were over
    when the next one begins.
    """
    origin: dict[str, str] = {}
    loaded, multiplied = set(), set()
    for line in ttgir.splitlines():
        names = re.findall(r"%[\w#]+", line)
        if "ttg.memdesc_" in line:
            origin[names[0]] = origin.get(names[1], names[1])
        elif "ttg.local_load" in line:
            loaded.add(origin.get(names[1], names[1]))
        elif "ttng.warp_group_dot %" in line and "isAsync = true" in line:
            multiplied |= {origin.get(name, name) for name in names[1:3]}
    return loaded & multiplied


def compiling(monkeypatch: pytest.MonkeyPatch, card: Card) -> Compiler:
    """Compile for a card, from now on, whatever is launched; nothing is computed."""
    found = Compiler(card)
    monkeypatch.setattr(JITFunction, "run", lambda kernel, *a, **k: found.run(kernel, *a, **k))
    monkeypatch.setattr(kernels, "run_on", lambda tensor: True)
    stands_in = {
        "overlaps": lambda tensor: card.overlaps,
        "max_shared_bytes": lambda tensor: card.shared_bytes,
    }
    for module in pkgutil.iter_modules(kernels.__path__):
        loaded = importlib.import_module(f"{kernels.__name__}.{module.name}")
        for name in stands_in.keys() & vars(loaded).keys():
            monkeypatch.setattr(loaded, name, stands_in[name])
    return found
