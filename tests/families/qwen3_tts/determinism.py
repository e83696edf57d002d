"""Bits of hidden states, logits, codes and samples of the same requests in many histories.

    python -m tests.families.qwen3_tts.determinism --random-dir /dev/shm/random --frames 1000000

A request is made alone, in bursts, beside prompts that are read, from cold and from cached
beginnings, and after it has lost its slot. With `--deterministic` all give the same bits. Each
frame's hidden state and the scores of its codes, which are logits and noise, are hashed on the
device, in the same graphs that make them.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import cycle
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from antiphon.codec.runners import FusedRunner
from antiphon.contracts.engine_limits import AdmissionLimits
from antiphon.contracts.family import LoadContext
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import AudioChunk, Ended, Samples
from antiphon.engine.core import EngineCore
from antiphon.engine.model_runner.ar_model import Frames, Inputs
from antiphon.engine.request import EngineRequest
from antiphon.engine.scheduler import SchedulerLimits
from antiphon.families.qwen3_tts import language_model as runners
from antiphon.families.qwen3_tts.codec import load_codec
from antiphon.families.qwen3_tts.config_reader import load_config
from antiphon.families.qwen3_tts.language_model import (
    FusedLanguageModel,
    LanguageModel,
    Reaches,
    load_runner,
)
from antiphon_bench.machine import provenance, shown_command
from tests.bench.peer import weights_of
from tests.engine.turns import has_work, read_frames
from tests.families.qwen3_tts.lm import DRAWN, made_prompt
from tests.families.whole_checkpoints import context_of

KINDS = ("hidden", "scores", "codes")
_ROOM = AdmissionLimits(max_waiting=sys.maxsize, max_wait_s=float("inf"), max_load=float("inf"))


class Notes:
    """Hashes of all frames on the device, by a request's seed and the frame's number."""

    def __init__(self, num_requests: int, num_frames: int, device: torch.device) -> None:
        size = (len(KINDS), num_requests + 1, num_frames + 2)  # request 0 is padding
        self.hashes = torch.zeros(size, dtype=torch.int64, device=device)
        self._factors: dict[int, Tensor] = {}

    def note(self, kind: int, seeds: Tensor, frames: Tensor, rows: Tensor) -> None:
        """Hash ``rows`` as frames of requests; runs within a captured graph."""
        _, num_requests, num_frames = self.hashes.shape
        at = (seeds.clamp(max=num_requests - 1), frames.clamp(max=num_frames - 1))
        self.hashes[kind].index_put_(at, self._hashed(rows))

    def _hashed(self, rows: Tensor) -> Tensor:
        kind = {2: torch.int16, 4: torch.int32, 8: torch.int64}[rows.element_size()]
        words = rows.contiguous().view(kind).to(torch.int64)
        factors = self._factors.get(words.shape[1])
        if factors is None:
            generator = torch.Generator().manual_seed(words.shape[1])
            factors = torch.randint(2**62, (words.shape[1],), generator=generator) * 2 + 1
            factors = self._factors[words.shape[1]] = factors.to(rows.device)
        return (words * factors).sum(1)


class _Noting(LanguageModel):
    """A language model whose frames are noted as they are made."""

    notes: Notes

    def sample(self, hidden: Tensor, inputs: Inputs, sampling: Reaches) -> Frames:
        frames = super().sample(hidden, inputs, sampling)
        seeds = self.slots.seeds[inputs.slots, 0]
        for kind, rows in enumerate((hidden, frames.scores, frames.codes[:, :-1])):
            self.notes.note(kind, seeds, inputs.frames, rows)
        return frames


class _FusedNoting(_Noting, FusedLanguageModel):
    """The same, with kernels."""


@dataclass(frozen=True, slots=True)
class History:
    """One way for requests to be made.

    Attributes:
        at_once: number of requests that are open at the same time.
        every_steps: number of steps between two arrivals; 0: as soon as there is room.
        is_cold: whether nothing is cached of earlier histories.
        is_scarce: whether requests lose their slots for want of blocks.
        reads_late: whether clients read in bursts, so that chunks have all sizes.
        only: number of requests; ``None``: all.
    """

    name: str
    at_once: int
    every_steps: int = 0
    is_cold: bool = False
    is_scarce: bool = False
    reads_late: bool = False
    only: int | None = None


@dataclass(frozen=True, slots=True)
class Made:
    """Hashes ``[kinds, requests, frames]`` and samples of all requests."""

    hashes: NDArray[np.int64]
    samples: Sequence[Samples]
    num_preempted: int


class Machine:
    """A loaded model, driven as the engine drives it."""

    def __init__(self, context: LoadContext, num_requests: int, num_frames: int) -> None:
        assert context.path is not None
        self._num_frames = num_frames
        config = load_config(context.path)
        # A step made in advance, after the end, would be noted in some histories only.
        sampling = replace(DRAWN, max_frames=num_frames, ignore_eos=True)
        self.prompts: Sequence[Prompt] = [
            made_prompt(
                config,
                seed=1 + number,
                num_tokens=4 + 5 * number % 60,
                streams_text=number % 3 > 0,
                sampling=sampling,
            )
            for number in range(num_requests)
        ]
        self._runners: dict[bool, FusedRunner] = {}
        self._context = context
        self._notes: Notes | None = None
        self._core: EngineCore | None = None

    def make(self, history: History) -> Made:
        prompts = self.prompts[: history.only]
        runner, notes = self._runner(is_scarce=history.is_scarce)
        with torch.inference_mode():
            notes.hashes.zero_()
        if history.is_cold or history.is_scarce or self._core is None:
            self._core = EngineCore(runner, limits=SchedulerLimits(admission=_ROOM))
        core, waiting = self._core, [*enumerate(prompts)][::-1]
        chunks: list[list[Samples]] = [[] for _ in prompts]
        num_open, num_steps, num_preempted = 0, 0, 0
        unread: list[tuple[str, int]] = []
        rng = np.random.default_rng(len(waiting))
        while waiting or has_work(core):
            is_due = not history.every_steps or num_steps % history.every_steps == 0
            while waiting and num_open < history.at_once and is_due:
                number, prompt = waiting.pop()
                core.scheduler.add(EngineRequest(str(number), prompt))
                num_open, is_due = num_open + 1, not history.every_steps
            for name, event in core.step():
                if isinstance(event, AudioChunk):
                    chunks[int(name)].append(event.samples)
                    unread.append((name, event.num_frames))
                elif isinstance(event, Ended):
                    assert event.reason in ("stop", "length"), event
                    num_open -= 1
            if not history.reads_late or rng.random() < 0.2 or len(unread) > 4 * num_open:
                for name, num_frames in unread:
                    read_frames(core.scheduler, name, num_frames)
                unread.clear()
            num_preempted = core.scheduler.stats.preemptions
            core.wake()
            num_steps += 1
        samples = [np.concatenate(each) for each in chunks]
        return Made(notes.hashes[:, 1:].cpu().numpy(), samples, num_preempted)

    def close(self) -> None:
        for runner in self._runners.values():
            runner.close()

    def _runner(self, *, is_scarce: bool) -> tuple[FusedRunner, Notes]:
        """Return a runner with much or little room for keys and values; it is the only one."""
        if is_scarce not in self._runners:
            self.close()
            self._runners.clear()
            self._core = None
            self._runners[is_scarce] = self._load(cache_bytes=1 if is_scarce else None)
        assert self._notes is not None
        return self._runners[is_scarce], self._notes

    def _load(self, cache_bytes: int | None) -> FusedRunner:
        with ExitStack() as stack:
            for name, kind in (("LanguageModel", _Noting), ("FusedLanguageModel", _FusedNoting)):
                stack.enter_context(mock.patch.object(runners, name, self._noting(kind)))
            context = replace(self._context, cache_bytes=cache_bytes)
            runner = load_runner(context, max_positions=1024)
        return FusedRunner(runner, load_codec(self._context))

    def _noting(self, kind: type[_Noting]) -> Callable[..., _Noting]:
        def make(*arguments: Any, **options: Any) -> _Noting:
            model = kind(*arguments, **options)
            device = model.slots.positions.device
            model.notes = self._notes = Notes(len(self.prompts), self._num_frames, device)
            return model

        return make


def differences(one: Made, other: Made) -> dict[str, Any]:
    """Return how many frames differ in each kind, with the first of them, and how many streams."""
    num = min(len(one.samples), len(other.samples))
    differs = one.hashes[:, :num] != other.hashes[:, :num]
    found: dict[str, Any] = {
        kind: int(part.sum()) for kind, part in zip(KINDS, differs, strict=True)
    }
    unequal = [
        (number, *_unequal(first, second))
        for number, (first, second) in enumerate(zip(one.samples, other.samples, strict=False))
        if not np.array_equal(first, second)
    ]
    found["samples"], found["unequal"] = len(unequal), unequal
    firsts = {}
    for request in np.flatnonzero(differs.any((0, 2))).tolist():
        frame = int(np.flatnonzero(differs[:, request].any(0))[0])
        kinds = [kind for kind, part in zip(KINDS, differs[:, request, frame], strict=True) if part]
        firsts[request] = (frame, kinds)
    found["first"] = firsts
    return found


def _unequal(one: Samples, other: Samples) -> tuple[int, int, int, float]:
    """Return the first and last sample that differ, how many do, and by how much at most."""
    if len(one) != len(other):
        return (min(len(one), len(other)), max(len(one), len(other)), -1, -1.0)
    places = np.flatnonzero(one != other)
    most = float(np.abs(one - other).max())
    return int(places[0]), int(places[-1]), len(places), most


def histories(at_once: int) -> Sequence[History]:
    """Return the ways in which requests are made, the reference first."""
    return (
        History("burst, cold", at_once, is_cold=True),
        History("burst, cached", at_once),
        History("arriving each step", at_once, every_steps=1, is_cold=True),
        History("arriving each fifth step, cached", at_once, every_steps=5),
        History("a quarter at once", max(1, at_once // 4)),
        History("read late", at_once, reads_late=True),
        History("read late, arriving each third step", at_once, every_steps=3, reads_late=True),
        History("three at once, cold", 3, every_steps=2, is_cold=True, only=24),
        History("alone", 1, is_cold=True, only=8),
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Compare until so many frames have been made; exit with 1 if any bit differed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--random-dir", type=Path, required=True)
    parser.add_argument("--size", default="1.7b")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--streams", type=int, default=64)
    parser.add_argument("--stream-frames", type=int, default=100)
    parser.add_argument("--frames", type=int, default=100_000)
    parser.add_argument("--limit-s", type=float, default=float("inf"))
    parser.add_argument("--default-mode", action="store_true", help="without --deterministic")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    path = weights_of(given, "qwen3_tts", "custom_voice")
    context = context_of(
        path,
        given.device,
        dtype=given.dtype,
        max_slots=given.streams,
        is_deterministic=not given.default_mode,
    )
    found = compare(context, given.streams, given.stream_frames, given.frames, given.limit_s)
    if given.json is not None:
        report = {
            **provenance(),
            "kind": "determinism",
            "command": shown_command(sys.argv[1:]),
            **found,
        }
        given.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    sys.exit(int(found["num_different"] > 0))


def compare(
    context: LoadContext, streams: int, stream_frames: int, frames: int, limit_s: float
) -> dict[str, Any]:
    """Make requests again and again, and compare each time with the first."""
    machine = Machine(context, streams, stream_frames)
    began_s, num_frames, results = time.monotonic(), 0, list[dict[str, Any]]()
    scarce = History("preempted", streams, is_scarce=True)
    reference: Made | None = None
    ways = histories(streams)
    for way in cycle(ways):
        is_over = num_frames >= frames or time.monotonic() - began_s > limit_s
        if is_over and len(results) >= len(ways) - 1:
            way = scarce
        made = machine.make(way)
        if reference is None:
            reference = made
        else:
            results.append({"history": way.name, **differences(reference, made)})
            results[-1]["num_preempted"] = made.num_preempted
            print(json.dumps(results[-1]), flush=True)  # noqa: T201 - a command
        num_frames += int((made.hashes[2] != 0).sum())
        if way is scarce:
            break
    machine.close()
    num_different = sum(each[kind] for each in results for kind in (*KINDS, "samples"))
    summary = {
        "num_frames": num_frames,
        "num_different": num_different,
        "num_histories": len(results),
        "took_s": round(time.monotonic() - began_s, 1),
    }
    print(json.dumps(summary), flush=True)  # noqa: T201 - a command
    return {**summary, "results": results}


if __name__ == "__main__":
    main()
