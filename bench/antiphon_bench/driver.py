"""Load generator: closed streams, or random arrivals, in several processes.

Processes share one clock and one start; each works on its own part of the load.
"""

import asyncio
import itertools
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Barrier, Event
from typing import Protocol, TypeAlias

from antiphon.errors import EngineError
from antiphon_bench.connection import SpeechClient
from antiphon_bench.load import HttpLoad, Target, arrivals_s, begins_s
from antiphon_bench.record import Record
from antiphon_bench.text_socket import TextStreamClient
from antiphon_bench.texts import text_of

_SECONDS_TO_START = 0.2
_WAIT_AFTER_REFUSAL_S = 1.0
_START_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadShare:
    """Work of one client process.

    Attributes:
        starts_s: common start time, on the clock that all processes share.
    """

    load: HttpLoad
    target: Target
    texts: Sequence[str]
    starts_s: float


@dataclass(frozen=True, slots=True)
class PartResult:
    """Result of one client process.

    Attributes:
        cpu_share: share of one core that this process used; near 1 the client was the bottleneck.
    """

    records: list[Record]
    cpu_share: float

    def until(self, at_s: float) -> "PartResult":
        """Return the records up to a time of the shared clock.

        Ctrl-C also ends a server that this process started; later failures must not count.
        """
        return replace(self, records=[each for each in self.records if each.ended_s <= at_s])


Done: TypeAlias = Callable[[int], None]
"""Callback with the number of requests of a load that have been answered or have failed."""


class Runs(Protocol):
    """Makes a load of a server happen, once, with texts to choose from."""

    def __call__(
        self, load: HttpLoad, target: Target, texts: Sequence[str], on_done: Done = ..., /
    ) -> list[PartResult]: ...


Client: TypeAlias = SpeechClient | TextStreamClient
_LOOK_S = 0.2


@dataclass(frozen=True, slots=True)
class _Shared:
    """State that client processes share with their parent."""

    stop: Event
    num_done: "Synchronized[int]"


_SHARED: list[_Shared] = []
"""In a process of clients: what it shares."""


class LoadInterrupted(KeyboardInterrupt):
    """Ctrl-C was pressed during a load."""

    def __init__(self, parts: list[PartResult]) -> None:
        super().__init__()
        self.parts = parts


@contextmanager
def client_processes(num_processes: int) -> Iterator[Runs]:
    """Start processes that make loads happen, one load at a time, until the block ends."""
    context = multiprocessing.get_context("spawn")
    shared = _Shared(context.Event(), context.Value("L", 0))
    given = context.Barrier(num_processes), shared
    with ProcessPoolExecutor(num_processes, context, _begin, given) as pool:

        def run(
            load: HttpLoad, target: Target, texts: Sequence[str], on_done: Done = lambda _: None, /
        ) -> list[PartResult]:
            shared.num_done.value = 0
            starts_s = time.monotonic() + _SECONDS_TO_START
            parts = [
                LoadShare(load=each, target=target, texts=texts, starts_s=starts_s)
                for each in load.split(num_processes)
            ]
            calls = [pool.submit(run_part, part) for part in parts]
            try:
                while wait(calls, _LOOK_S).not_done:
                    on_done(shared.num_done.value)
                return [call.result() for call in calls]
            except KeyboardInterrupt:
                shared.stop.set()
                at_s = time.monotonic()
                found = [call.result() for call in calls]
                raise LoadInterrupted([each.until(at_s) for each in found]) from None
            except BrokenProcessPool as error:
                raise EngineError("A process of clients was killed: nothing is known.") from error
            finally:
                if not all(call.done() for call in calls):
                    shared.stop.set()

        # A pool starts its processes when they are wanted; the barrier lets none begin alone.
        with _signals_held():
            list(pool.map(time.sleep, [0.01] * num_processes))
        yield run


@contextmanager
def _signals_held() -> Iterator[None]:
    """Hold back what ends this process: a pool that is half begun cannot be ended in good order."""
    if os.name != "posix":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ending())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _ending() -> set[signal.Signals]:
    return {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}


def run_or_cut(
    run: Runs, load: HttpLoad, target: Target, texts: Sequence[str], on_done: Done
) -> tuple[list[PartResult], bool]:
    """Run a load; return the results, and whether it was interrupted."""
    try:
        return run(load, target, texts, on_done), False
    except LoadInterrupted as interrupted:
        return interrupted.parts, True


def _begin(barrier: Barrier, shared: _Shared) -> None:
    """Begin a process, which only its parent stops: Ctrl-C reaches both."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if os.name == "posix":  # they were held when this process began
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ending())
    _SHARED.append(shared)
    barrier.wait(_START_TIMEOUT_S)


def run_part(part: LoadShare) -> PartResult:
    """Do one process's work."""
    started_s, started_cpu_s = time.monotonic(), time.process_time()
    shared = _SHARED[0] if _SHARED else None
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        records = runner.run(drive(part, shared))
    wall_s = time.monotonic() - started_s
    return PartResult(records, (time.process_time() - started_cpu_s) / wall_s)


async def drive(part: LoadShare, shared: _Shared | None = None) -> list[Record]:
    """Send all requests of a part and wait until each has been answered or has failed.

    Args:
        shared: state that stops the load, leaving out requests in flight, and counts finished
            requests.
    """
    is_text_stream = part.target.text_stream is not None
    client = (TextStreamClient if is_text_stream else SpeechClient)(part.target)
    records: list[Record] = []
    num_told = 0
    work = asyncio.create_task(_sent(part, client, records))
    try:
        while not work.done():
            await asyncio.wait([work], timeout=None if shared is None else _LOOK_S)
            if shared is not None:
                with shared.num_done.get_lock():
                    shared.num_done.value += len(records) - num_told
                num_told = len(records)
            if shared is not None and shared.stop.is_set():
                work.cancel()
                await asyncio.gather(work, return_exceptions=True)
        if not work.cancelled():
            work.result()
    finally:
        work.cancel()
        client.close()
    return records


async def _sent(part: LoadShare, client: Client, records: list[Record]) -> None:
    await asyncio.sleep(part.starts_s - time.monotonic())
    if part.load.is_open:
        await _strangers(part, client, records)
        return
    indices = itertools.count(part.load.first_index, part.load.stride)
    numbers = itertools.islice(indices, part.load.num_requests)
    streams = (_stream(part, client, numbers, each, records) for each in begins_s(part.load))
    await asyncio.gather(*streams)


async def _stream(
    part: LoadShare,
    client: Client,
    numbers: Iterator[int],
    begin_s: float,
    records: list[Record],
) -> None:
    """Send one request after another while there are numbers and time."""
    load, pause_s = part.load, 0.0
    await asyncio.sleep(part.starts_s + begin_s - time.monotonic())
    for number in numbers:
        await asyncio.sleep(pause_s)
        now_s = time.monotonic()
        if load.duration_s is not None and now_s - part.starts_s > load.duration_s:
            break
        record = await client.speak(number, _text(part, number), now_s)
        records.append(record)
        # A client that is turned away does not come back at once.
        wanted_s = record.retry_after_s or _WAIT_AFTER_REFUSAL_S
        pause_s = 0.0 if record.outcome == "ok" else min(wanted_s, _WAIT_AFTER_REFUSAL_S)


async def _strangers(part: LoadShare, client: Client, records: list[Record]) -> None:
    """Send each request when it is due, whatever became of those before it."""

    async def speak(number: int, due_s: float) -> None:
        records.append(await client.speak(number, _text(part, number), due_s))

    async with asyncio.TaskGroup() as calls:
        for order, arrival_s in enumerate(arrivals_s(part.load)):
            due_s = part.starts_s + arrival_s
            await asyncio.sleep(due_s - time.monotonic())
            number = part.load.first_index + order * part.load.stride
            calls.create_task(speak(number, due_s))


def _text(part: LoadShare, number: int) -> str:
    """Return the text of a request; a trace with texts determines it."""
    if part.load.times_s and len(part.texts) == len(part.load.times_s):
        return part.texts[number]
    return text_of(part.texts, part.load.seed, number)


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return the kind of event loop that servers have; ``None``: asyncio's own."""
    if find_spec("uvloop") is None:
        return None
    import uvloop

    return uvloop.new_event_loop
