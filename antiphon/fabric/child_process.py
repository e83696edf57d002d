"""Python processes of ours that never outlive the process that has started them.

A child reads one object from its stdin when it begins. Later the end of that pipe says that the
parent is gone, by whatever way, and the child ends itself at once. On its stdout it tells the
parent one object, that it is ready or why it cannot be; from then on stdout is stderr.
"""

import asyncio
import ctypes
import os
import pickle
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from typing import Any, Self

from antiphon.errors import EngineError

_LENGTH_BYTES = 8
_SET_PARENT_DEATH_SIGNAL = 1  # of prctl(2)


class ChildProcess:
    """A child that runs, as its parent sees it.

    Attributes:
        name: for people.
    """

    def __init__(self, name: str, process: asyncio.subprocess.Process) -> None:
        """Hold a process that has been started; see `start`."""
        self.name = name
        self._process = process
        self._told: asyncio.Task[Any] = asyncio.create_task(self._read(), name=f"read {name}")

    @classmethod
    async def start(
        cls,
        name: str,
        module: str,
        plan: Any,
        *,
        environment: Mapping[str, str],
        descriptors: Sequence[int] = (),
    ) -> Self:
        """Run a module of ours, which begins with `begin`.

        Args:
            name: for people; in the list of processes, too.
            module: its name; run as ``__main__``.
            plan: what the child gets; data.
            environment: all of the child's variables.
            descriptors: of files that it inherits.
        """
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", module, name),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=dict(environment),
            pass_fds=tuple(descriptors),
            # Ctrl-C in a terminal is the parent's to forward; uvloop knows no process_group.
            start_new_session=True,
        )
        child = cls(name, process)
        async with AsyncExitStack() as unless_given:
            unless_given.push_async_callback(child.stop, 0.0)
            await child._give(plan)
            unless_given.pop_all()
        return child

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self._process.returncode is None

    async def told(self) -> Any:
        """Return what it has told.

        Raises:
            EngineError: it has ended without a word.
        """
        return await asyncio.shield(self._told)

    async def wait(self) -> int:
        """Return its exit status, once it has ended; negative: the signal that ended it."""
        return await self._process.wait()

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it runs."""
        with suppress(ProcessLookupError):
            self._process.send_signal(number)

    async def stop(self, grace_s: float) -> None:
        """End it by SIGTERM, and by SIGKILL if that takes longer than ``grace_s``."""
        try:
            self.send_signal(signal.SIGTERM)
            with suppress(TimeoutError):
                async with asyncio.timeout(grace_s):
                    await self._process.wait()
        finally:
            if self.is_running:
                self.send_signal(signal.SIGKILL)
            self._told.cancel()
        await self._process.wait()

    async def _give(self, plan: Any) -> None:
        assert self._process.stdin is not None
        content = pickle.dumps(plan)
        self._process.stdin.write(len(content).to_bytes(_LENGTH_BYTES, "big") + content)
        with suppress(ConnectionError):  # it has ended already: `told` says so
            await self._process.stdin.drain()

    async def _read(self) -> Any:
        assert self._process.stdout is not None
        read = self._process.stdout.readexactly
        try:
            return pickle.loads(await read(int.from_bytes(await read(_LENGTH_BYTES), "big")))
        except asyncio.IncompleteReadError:
            status = await self._process.wait()
            raise EngineError(f"The process {self.name} has ended, with status {status}.") from None


def begin() -> Any:
    """Return what the parent gives this process, and end with the parent from now on."""
    content = _read_plan()
    threading.Thread(target=_end_with_parent, name="parent watch", daemon=True).start()
    if sys.platform == "linux":  # even if a thread holds the interpreter's lock for good
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, int(signal.SIGKILL))
    return pickle.loads(content)


def tell(news: Any) -> None:
    """Tell the parent one thing, once: data."""
    content = pickle.dumps(news)
    with suppress(BrokenPipeError):
        sys.stdout.buffer.write(len(content).to_bytes(_LENGTH_BYTES, "big") + content)
        sys.stdout.flush()
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())


def _read_plan() -> bytes:
    given = sys.stdin.buffer
    return given.read(int.from_bytes(given.read(_LENGTH_BYTES), "big"))


def _end_with_parent() -> None:
    while os.read(0, 1):
        pass
    os._exit(1)
