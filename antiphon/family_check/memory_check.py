"""Growth of memory with requests: of Python, tensors, the process, and objects of the family."""

import asyncio
import gc
import sys
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from antiphon.contracts.types import Sampling, new_request_id
from antiphon.family_check.subject import Found, Subject

_NUM_ROUNDS = 4  # the first one fills caches and is not counted
_ROUND_REQUESTS = 15
_MAX_FRAMES = 3
_ALLOWED_BYTES = {"Python memory": 2**16, "tensors": 2**16, "resident memory": 2**18}
"""Growth for each request, in every round. The allocator makes resident memory less exact."""
_STATUS = Path("/proc/self/status")


@dataclass(frozen=True, slots=True)
class _Held:
    """Memory and objects that the process holds.

    Attributes:
        num_bytes: bytes by kind.
        objects: instances of the family's classes, by the class's name.
    """

    num_bytes: dict[str, int]
    objects: "Counter[str]"


async def frees_memory(subject: Subject) -> Found:
    """Make short requests in rounds; fail if every round leaves something behind."""
    with _traced():
        held = []
        for number in range(_NUM_ROUNDS):
            await _round(subject, number)
            held.append(_measured(subject.package))
    rounds = [*pairwise(held[1:])]
    grown = [*_grown_bytes(rounds), *_grown_objects(rounds)]
    num_requests = len(rounds) * _ROUND_REQUESTS
    if grown:
        return False, f"each of {num_requests} requests leaves behind: {', '.join(grown)}"
    return True, f"nothing grows with {num_requests} requests"


async def _round(subject: Subject, number: int) -> None:
    short = replace(
        subject.model.capabilities.sample_request, sampling=Sampling(max_frames=_MAX_FRAMES)
    )
    seeds = iter(range(number * _ROUND_REQUESTS, (number + 1) * _ROUND_REQUESTS))

    async def client() -> None:
        for seed in seeds:
            await subject.speak(replace(short, seed=seed, is_live=False, id=new_request_id()))

    await asyncio.gather(*(client() for _ in range(subject.plan.num_concurrent)))


def _grown_bytes(rounds: list[tuple[_Held, _Held]]) -> Iterator[str]:
    for kind, allowed in _ALLOWED_BYTES.items():
        growth = [
            (after.num_bytes[kind] - before.num_bytes[kind]) / _ROUND_REQUESTS
            for before, after in rounds
            if kind in before.num_bytes
        ]
        if growth and min(growth) > allowed:
            yield f"{min(growth) / 2**10:.0f} KiB of {kind}"


def _grown_objects(rounds: list[tuple[_Held, _Held]]) -> Iterator[str]:
    for name in sorted(rounds[-1][1].objects):
        growth = [after.objects[name] - before.objects[name] for before, after in rounds]
        if min(growth) >= _ROUND_REQUESTS:
            yield f"{min(growth) // _ROUND_REQUESTS} x {name}"


def _measured(package: str) -> _Held:
    gc.collect()
    objects = gc.get_objects()
    kinds = Counter(map(type, objects))  # a few thousand, where objects may be millions
    num_bytes = {"Python memory": tracemalloc.get_traced_memory()[0]}
    if (torch := sys.modules.get("torch")) is not None:
        of_tensors = {kind for kind in kinds if issubclass(kind, torch.Tensor)}
        tensors = [each for each in objects if type(each) in of_tensors]
        storages = {
            each.untyped_storage().data_ptr(): each.untyped_storage().nbytes()
            for each in tensors
            if each.layout == torch.strided
        }
        num_bytes["tensors"] = sum(storages.values())
    if _STATUS.exists():
        lines = dict(line.split(":", 1) for line in _STATUS.read_text("utf-8").splitlines())
        num_bytes["resident memory"] = int(lines["VmRSS"].split()[0]) * 1024
    own = Counter[str]()
    for kind, number in kinds.items():
        if str(kind.__module__).startswith(package):
            own[kind.__qualname__] += number
    return _Held(num_bytes, own)


@contextmanager
def _traced() -> Iterator[None]:
    """Trace Python's allocations, if they are not traced already."""
    is_own = not tracemalloc.is_tracing()
    if is_own:
        tracemalloc.start()
    try:
        yield
    finally:
        if is_own:
            tracemalloc.stop()
