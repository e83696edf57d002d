"""Makes a load happen: closed streams, or arrivals at random, in several processes.

Processes share one clock and one start; each works on its own part of the load.
"""

import asyncio
import itertools
import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TypeAlias

from antiphon.bench.connection import SpeechClient
from antiphon.bench.load import HttpLoad, Target, arrivals_s, begins_s
from antiphon.bench.record import Record
from antiphon.bench.text_socket import TextStreamClient
from antiphon.bench.texts import text_of

_SECONDS_TO_START = 0.2
_WAIT_AFTER_REFUSAL_S = 1.0
_START_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadShare:
    """What one process does.

    Attributes:
        load: its part of the load.
        target: the server.
        texts: to choose from.
        starts_s: when all begin, on the clock that all processes share.
    """

    load: HttpLoad
    target: Target
    texts: Sequence[str]
    starts_s: float


@dataclass(frozen=True, slots=True)
class PartResult:
    """What a process saw.

    Attributes:
        records: one a request.
        cpu_share: of one core that this process was busy; near 1 it was the bottleneck itself.
    """

    records: list[Record]
    cpu_share: float


Runs: TypeAlias = Callable[[HttpLoad, Target, Sequence[str]], list[PartResult]]
"""Makes a load of a server happen, once, with texts to choose from."""
Client: TypeAlias = SpeechClient | TextStreamClient


@contextmanager
def client_processes(num_processes: int) -> Iterator[Runs]:
    """Start processes that make loads happen, one load at a time, until the block ends."""
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(num_processes)
    with ProcessPoolExecutor(num_processes, context, barrier.wait, (_START_TIMEOUT_S,)) as pool:

        def run(load: HttpLoad, target: Target, texts: Sequence[str]) -> list[PartResult]:
            starts_s = time.monotonic() + _SECONDS_TO_START
            parts = [
                LoadShare(load=each, target=target, texts=texts, starts_s=starts_s)
                for each in load.split(num_processes)
            ]
            return list(pool.map(run_part, parts))

        # A pool starts its processes when they are wanted; the barrier lets none begin alone.
        list(pool.map(time.sleep, [0.01] * num_processes))
        yield run


def run_part(part: LoadShare) -> PartResult:
    """Do one process's work."""
    started_s, started_cpu_s = time.monotonic(), time.process_time()
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        records = runner.run(drive(part))
    wall_s = time.monotonic() - started_s
    return PartResult(records, (time.process_time() - started_cpu_s) / wall_s)


async def drive(part: LoadShare) -> list[Record]:
    """Send all requests of a part and wait until each has been answered or has failed."""
    is_text_stream = part.target.text_stream is not None
    client = (TextStreamClient if is_text_stream else SpeechClient)(part.target)
    try:
        await asyncio.sleep(part.starts_s - time.monotonic())
        if part.load.is_open:
            return await _strangers(part, client)
        indices = itertools.count(part.load.first_index, part.load.stride)
        numbers = itertools.islice(indices, part.load.num_requests)
        streams = (_stream(part, client, numbers, each) for each in begins_s(part.load))
        return list(itertools.chain.from_iterable(await asyncio.gather(*streams)))
    finally:
        client.close()


async def _stream(
    part: LoadShare, client: Client, numbers: Iterator[int], begin_s: float
) -> list[Record]:
    """Send one request after another while there are numbers and time."""
    load, records, pause_s = part.load, list[Record](), 0.0
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
    return records


async def _strangers(part: LoadShare, client: Client) -> list[Record]:
    """Send each request when it is due, whatever became of those before it."""
    load, calls = part.load, list[asyncio.Task[Record]]()
    for order, arrival_s in enumerate(arrivals_s(load)):
        due_s = part.starts_s + arrival_s
        await asyncio.sleep(due_s - time.monotonic())
        number = load.first_index + order * load.stride
        calls.append(asyncio.create_task(client.speak(number, _text(part, number), due_s)))
    return list(await asyncio.gather(*calls))


def _text(part: LoadShare, number: int) -> str:
    """Return what a request says: of a trace that has texts, its own."""
    if part.load.times_s and len(part.texts) == len(part.load.times_s):
        return part.texts[number]
    return text_of(part.texts, part.load.seed, number)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if find_spec("uvloop") is None:
        return None
    import uvloop

    return uvloop.new_event_loop
