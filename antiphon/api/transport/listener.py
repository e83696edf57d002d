"""Accepts connections, at sockets that other front ends of the same server may listen on, too.

An event loop's own servers take one connection in each turn (libuv does since version 1.46): in a
flood of requests, whose work makes turns long, thousands would wait before a probe.

The sockets are inherited from one parent, rather than bound by each process with SO_REUSEPORT: a
connection waits in one queue, from which whichever process has time takes it. A front end that dies
or hangs takes no waiting connection with it, and the port stays taken while it is restarted.
"""

import asyncio
import errno
import logging
import socket
from collections.abc import Callable, Sequence
from functools import partial

logger = logging.getLogger(__name__)

BACKLOG = 2048
MAX_PER_TURN = 64
"""Connections that a process takes in a turn of its loop, if it is the only one."""
MAX_LEAD = 2
"""Connections that a process may have more than another before it lets that one go first."""
STEP_BACK_S = 0.002
"""Duration; afterwards it accepts connections that no other process has taken."""
_PAUSE_S = 1.0
"""After which a process that has no descriptors left tries again; others may have some."""
_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class ConnectionListener:
    """Takes one connection in each turn of the loop, so that a burst is shared out evenly.

    A process that has the sockets for itself takes more.
    """

    def __init__(
        self,
        sockets: Sequence[socket.socket],
        make_protocol: Callable[[], asyncio.BaseProtocol],
        lead: Callable[[], int] | None = None,
        is_full: Callable[[], bool] = lambda: False,
    ) -> None:
        """Listen, on the running loop.

        Args:
            lead: returns how many connections more this process has than the one with the fewest;
                ``None``: it is the only one.
            is_full: returns whether this process has no room for one more at present.
        """
        self._lead = lead
        self._is_full = is_full
        self._loop = asyncio.get_running_loop()
        self._sockets = list(sockets)
        self._make_protocol = make_protocol
        self._opening: set[asyncio.Task[object]] = set()
        for each in self._sockets:
            each.setblocking(False)
            each.listen(BACKLOG)
            self._resume(each)

    def close(self) -> None:
        """Accept nothing more; others go on."""
        sockets, self._sockets = self._sockets, []
        for each in sockets:
            self._loop.remove_reader(each)

    async def wait_closed(self) -> None:
        """Return when what was accepted has its protocol."""
        if self._opening:
            await asyncio.wait(self._opening)

    def _ready(self, listening: socket.socket) -> None:
        if self._is_full():
            self._pause(listening, STEP_BACK_S)
        elif self._lead is None:
            for _ in range(MAX_PER_TURN):
                if not self._accept(listening):
                    return
        elif self._lead() <= MAX_LEAD:
            self._accept(listening)
        else:
            self._loop.remove_reader(listening)
            self._loop.call_later(STEP_BACK_S, self._accept_and_resume, listening)

    def _accept_and_resume(self, listening: socket.socket) -> None:
        if listening in self._sockets:
            self._resume(listening)
            if not self._is_full():
                self._accept(listening)

    def _pause(self, listening: socket.socket, pause_s: float) -> None:
        self._loop.remove_reader(listening)
        self._loop.call_later(pause_s, self._resume, listening)

    def _accept(self, listening: socket.socket) -> bool:
        try:
            connection, _ = listening.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return False  # another process was faster, or the client has gone
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            logger.warning("no connection can be accepted for a moment: %s", error)
            self._pause(listening, _PAUSE_S)
            return False
        connection.setblocking(False)
        if connection.family in (socket.AF_INET, socket.AF_INET6):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        opening = self._loop.connect_accepted_socket(self._make_protocol, connection)
        task: asyncio.Task[object] = self._loop.create_task(opening)
        self._opening.add(task)
        task.add_done_callback(partial(self._opened, connection))
        return True

    def _opened(self, connection: socket.socket, task: "asyncio.Task[object]") -> None:
        self._opening.discard(task)
        if task.cancelled() or (error := task.exception()) is not None:
            connection.close()
            if not task.cancelled():
                logger.info("a connection could not be opened: %s", error)

    def _resume(self, listening: socket.socket) -> None:
        if listening in self._sockets:
            self._loop.add_reader(listening, self._ready, listening)
