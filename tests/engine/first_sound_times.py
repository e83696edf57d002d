"""Where the time to a first sound goes: ``python -m tests.engine.first_sound_times``.

Requests come one at a time, some time after each other, to an engine without HTTP. Printed are
medians of when each part of the first step began and ended on the host, and when the device had
done it, by CUDA events; all in milliseconds since the request.
"""

import asyncio
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, TypeAlias

import torch

from antiphon.codec.graph_decoder import GraphDecoder
from antiphon.config import ModelSettings
from antiphon.contracts.types import AudioChunk, Sampling, SpeechRequest, new_request_id
from antiphon.engine import thread
from antiphon.engine.async_engine import AsyncEngine
from antiphon.engine.core import EngineCore
from antiphon.engine.model_runner.model_runner import ModelRunner
from antiphon.engine.scheduler import Scheduler
from antiphon.families.qwen3_tts.language_model import FusedLanguageModel
from antiphon.nn.device_writes import Download, PackedUpload
from antiphon.nn.graphs import Graphs
from antiphon.pipeline.speech.model import SpeechModel
from antiphon.stages.base import StageRequest
from antiphon_bench.engine import TEXT
from tests.bench.peer import peer_flags, weights_of

PARTS: tuple[tuple[Any, str], ...] = (
    (AsyncEngine, "_add"),
    (EngineCore, "step"),
    (Scheduler, "schedule"),
    (ModelRunner, "launch"),
    (PackedUpload, "send"),
    (FusedLanguageModel, "prompt_ids"),
    (Graphs, "run"),
    (GraphDecoder, "launch"),
    (Download, "__init__"),
    (AsyncEngine, "_note_end"),
    (EngineCore, "_collect"),
    (thread, "wake_all"),
)
ON_DEVICE = {(PackedUpload, "send"), (Graphs, "run")}
Call: TypeAlias = tuple[float, float, float | None]
"""Begin and end on the host, and end on the device, in seconds since a request."""
Calls: TypeAlias = dict[str, Call]

_NUM_IGNORED = 10
_PAUSE_S = 0.03


class Marks:
    """When parts began and ended, and were done on the device, in seconds since a request."""

    def __init__(self) -> None:
        self.began_s = 0.0
        self._noted: list[tuple[str, float, float, Any]] = []
        self._first: Any = None

    def wrap(self, owner: Any, name: str) -> None:
        """Note each call of a function."""
        function: Callable[..., Any] = getattr(owner, name)
        is_on_device = (owner, name) in ON_DEVICE and torch.cuda.is_available()

        def noting(*args: Any, **more: Any) -> Any:
            begun_s = time.perf_counter()
            if is_on_device and self._first is None:
                self._first = (begun_s, self._event())
            try:
                return function(*args, **more)
            finally:
                event = self._event() if is_on_device else None
                self._noted.append((name, begun_s, time.perf_counter(), event))

        setattr(owner, name, noting)

    async def begin(self) -> None:
        """Begin with a request, once the engine has done nothing for a while."""
        num_noted = -1
        while num_noted != len(self._noted):
            num_noted = len(self._noted)
            await asyncio.sleep(_PAUSE_S)
        self._noted, self._first, self.began_s = [], None, time.perf_counter()

    def taken(self) -> Calls:
        """Return the calls of one request by name and number, in order."""
        numbers: dict[str, int] = defaultdict(int)
        found: Calls = {}
        for name, begun_s, ended_s, event in sorted(self._noted, key=lambda each: each[1]):
            numbers[name] += 1
            done_s = None
            if event is not None:
                event.synchronize()
                first_s, first = self._first
                done_s = first_s + first.elapsed_time(event) / 1000 - self.began_s
            key = f"{name} {numbers[name]}"
            found[key] = (begun_s - self.began_s, ended_s - self.began_s, done_s)
        return found

    @staticmethod
    def _event() -> Any:
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event


async def measured(source: Path, device: str, num_requests: int) -> list[Calls]:
    """Return the marks of each request, until its first chunk was there."""
    marks, found = Marks(), list[Calls]()
    model = await SpeechModel.load(ModelSettings(source=str(source), device=device))
    await model.warm_up()
    for owner, name in PARTS:
        marks.wrap(owner, name)
    request = SpeechRequest(TEXT, sampling=Sampling(max_frames=4))
    for number in range(num_requests):
        prompt = model.prompter.build(request, model.capabilities.voices[0], number)
        await marks.begin()
        async with aclosing(model.open(StageRequest(new_request_id(), prompt))) as items:
            async for item in items:
                # Read to its end: a step left behind would count as the next request's.
                if isinstance(item, AudioChunk) and len(found) == number:
                    heard_s = time.perf_counter() - marks.began_s
                    found.append({**marks.taken(), "first chunk": (heard_s, heard_s, None)})
    await model.close()
    return found[_NUM_IGNORED:]


def table(found: list[Calls]) -> list[str]:
    """Return lines of medians, of what most requests have."""
    calls: dict[str, list[Call]] = defaultdict(list)
    for each in found:
        for name, call in each.items():
            calls[name].append(call)
    rows = [
        (*(_median_ms(times) for times in zip(*noted, strict=True)), name)
        for name, noted in calls.items()
        if 2 * len(noted) >= len(found)
    ]
    head = f"{'part':22}{'begins':>9}{'ends':>9}{'device':>9}"
    rows.sort(key=lambda row: float(row[0]))
    return [head, *(f"{row[-1]:22}" + "".join(f"{each:>9}" for each in row[:-1]) for row in rows)]


def _median_ms(times_s: Sequence[float | None]) -> str:
    known = [1000 * each for each in times_s if each is not None]
    return f"{statistics.median(known):.3f}" if known else ""


def main() -> None:
    parser = peer_flags(__doc__.split("\n")[0], "1.7b")
    parser.add_argument("--requests", type=int, default=60, help="one after the other")
    given = parser.parse_args()
    path = weights_of(given, "qwen3_tts", "custom_voice")
    print(*table(asyncio.run(measured(path, given.device, given.requests))), sep="\n")  # noqa: T201


if __name__ == "__main__":
    main()
