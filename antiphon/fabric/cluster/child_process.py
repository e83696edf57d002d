"""Child processes that never outlive the process that has started them.

A child reads one object from stdin when it begins. End of file on that pipe later means that the
parent has ended, for any reason, and the child exits at once. The child writes one object to
stdout, its readiness or the error; from then on stdout is stderr.
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
    def __init__(self, name: str, process: asyncio.subprocess.Process) -> None:
        self.name = name
        self._process = process
        self._reported: asyncio.Task[Any] = asyncio.create_task(self._read(), name=f"read {name}")

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
        """Run a module that begins with `begin`.

        Args:
            name: display name, also in the list of processes.
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
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.returncode is None

    async def reported(self) -> Any:
        """Return the object that the child has reported; raises EngineError."""
        return await asyncio.shield(self._reported)

    async def ended(self) -> str:
        """Wait for the end of the process; return how it has ended, as in "by signal 9"."""
        status = await self._process.wait()
        return f"by signal {-status}" if status < 0 else f"with status {status}"

    def send_signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            self._process.send_signal(number)

    async def stop(self, grace_s: float) -> None:
        """End the process by SIGTERM, and by SIGKILL after ``grace_s``."""
        try:
            self.send_signal(signal.SIGTERM)
            with suppress(TimeoutError):
                async with asyncio.timeout(grace_s):
                    await self._process.wait()
        finally:
            if self.is_running:
                self.send_signal(signal.SIGKILL)
            self._reported.cancel()
        await self._process.wait()

    async def _give(self, plan: Any) -> None:
        assert self._process.stdin is not None
        content = pickle.dumps(plan)
        self._process.stdin.write(len(content).to_bytes(_LENGTH_BYTES, "big") + content)
        with suppress(ConnectionError):  # it has ended already: `reported` raises
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
    """Return the start data, and end with the parent from now on."""
    content = _read_plan()
    threading.Thread(target=_end_with_parent, name="parent watch", daemon=True).start()
    if sys.platform == "linux":  # even if a thread never releases the interpreter's lock
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, int(signal.SIGKILL))
    return pickle.loads(content)


def report_to_parent(news: Any) -> None:
    """Report one object to the parent, once."""
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
